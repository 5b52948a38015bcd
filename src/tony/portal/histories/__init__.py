"""Job histories in any location: found, read within bounds, cached, and purged."""
