"""Sockets and TLS around the protocol: a server for the application master, a connection for whoever talks to it."""

from tony.rpc.client_connection import connect
from tony.rpc.connection import RpcConnection
from tony.rpc.server import Handler, RpcServer, ServerStatistics

__all__ = ["Handler", "RpcConnection", "RpcServer", "ServerStatistics", "connect"]
