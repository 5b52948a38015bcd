"""The guest in the container: starts the user's program, watches it, reports."""
