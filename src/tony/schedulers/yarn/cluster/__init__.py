"""The cluster: its configuration and addresses, clients to its daemons, and tokens."""
