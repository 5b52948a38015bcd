"""Containers on this machine: executor processes, their fork server, recovery and cleanup."""
