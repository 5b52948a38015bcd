"""The content-addressed cache: objects by digest, what is unpacked from them, and manifests."""
