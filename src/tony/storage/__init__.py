"""Files: archives, the content-addressed cache, unpacking."""
