"""Sockets and TLS around the protocol, on asyncio."""
