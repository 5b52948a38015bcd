"""Hadoop's tokens: the files they come in, what is in them, and which one fits where."""
