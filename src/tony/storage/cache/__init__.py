"""The content-addressed cache: objects by digest, and what is unpacked from them."""
