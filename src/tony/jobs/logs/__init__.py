"""The output of tasks on this machine: names and content of log files, and how they are followed."""
