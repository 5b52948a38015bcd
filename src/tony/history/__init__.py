"""The record of every job: where it lies, how it is written and read."""
