"""Sockets and TLS around the protocol: a server for the application master, a connection for whoever talks to it."""

from tony.rpc.client_connection import connect
from tony.rpc.connection import Connection
from tony.rpc.server import Handler, Server, ServerStatistics

__all__ = ["Connection", "Handler", "Server", "ServerStatistics", "connect"]
