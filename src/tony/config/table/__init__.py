"""The table of all settings, with each value's type, check and text."""
