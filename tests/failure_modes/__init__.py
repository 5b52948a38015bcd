"""Failure modes, each with a test: a clear message, nothing lost, nothing left. Listed in cases.toml."""
