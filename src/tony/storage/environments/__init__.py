"""Python environments and task files on a node: found, set up, and given to a task."""
