"""The connection to the AM: attach, reports, commands, lease, reattachment, tunnels."""
