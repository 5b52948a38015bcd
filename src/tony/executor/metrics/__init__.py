"""What a program uses, and its progress: memory, GPUs, steps."""
