"""Remote programs: users' commands in the task's container, next to its program (`tony exec`, `tony shell`)."""
