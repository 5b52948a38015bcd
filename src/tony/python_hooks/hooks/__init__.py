"""A folder for PYTHONPATH: code that Python runs before a program."""
