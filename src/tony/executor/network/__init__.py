"""The host's address, reserved ports, and the rendezvous process of a task."""
