"""Job history: reading and writing a job directory, and everything that is computed from it alone."""
