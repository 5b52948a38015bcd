"""Stack traces of a running program."""
