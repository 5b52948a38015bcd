"""Archives: detected by content, read within limits, unpacked, and written."""
