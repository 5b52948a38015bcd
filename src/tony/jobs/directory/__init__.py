"""A job seen through its directory: events, timeline, metrics, files and output, and what can be done with it."""
