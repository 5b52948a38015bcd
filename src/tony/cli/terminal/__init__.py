"""The terminal: its keys and size, lines that are drawn again, safe text, and the standard streams."""
