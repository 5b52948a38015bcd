"""Fake Hadoop daemons with fault injection."""
