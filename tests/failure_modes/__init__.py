"""Bad input and bad luck, each case a test: a clear message, nothing lost, nothing left. Listed in cases.toml."""
