"""The user's program: its environment and command, its start, its processes, and its exit."""
