"""Hadoop YARN: the client submits over Hadoop's own RPC, the application master and the executors are containers."""
