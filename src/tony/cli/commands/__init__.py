"""One file per command; each has a `command`."""
