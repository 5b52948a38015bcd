"""Bad input and bad luck: each case a test, a clear message, nothing lost, nothing left behind. The list is cases.toml."""
