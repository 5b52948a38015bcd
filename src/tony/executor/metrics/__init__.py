"""Metrics of a program, and its progress: memory, GPUs, steps."""
