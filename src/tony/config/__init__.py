"""One table of settings, the loaders, and where each value came from."""
