"""Hadoop's RPC, IPC version 9: frames, negotiation, connections."""
