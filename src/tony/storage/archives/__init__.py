"""Archives: detected by content, read within limits, and unpacked."""
