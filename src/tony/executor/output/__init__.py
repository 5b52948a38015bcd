"""A program's output: captured, stored, rotated, and read again by clients."""
