"""What the kernel offers: processes, control groups, ports. Standard library only; knows nothing of jobs."""
