"""A folder for PYTHONPATH: what Python runs before a program."""
