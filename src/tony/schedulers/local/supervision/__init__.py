"""The AM as a process of this machine: pre-forked, started, and restarted by its supervisor."""
