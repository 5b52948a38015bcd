"""Following a job on the terminal until it ends, and `tony top`."""
