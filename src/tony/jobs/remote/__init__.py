"""Files of jobs on other machines: their output and the rest of the job directory, fetched on demand."""
