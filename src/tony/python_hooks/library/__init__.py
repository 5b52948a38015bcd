"""A folder for PYTHONPATH: `tony` for programs whose Python has none."""
