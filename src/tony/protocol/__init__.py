"""Messages and framing between executor, application master and client. Pure: no sockets."""
