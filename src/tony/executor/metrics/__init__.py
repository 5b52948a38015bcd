"""What a program uses and how far it is: memory, GPUs, steps."""
