"""The table of all settings; their values in layers, with each one's type, check and text."""
