"""Sockets and TLS for the wire protocol: a server for the AM, a connection for its peers."""

from tony.rpc.client_connection import connect
from tony.rpc.connection import RpcConnection
from tony.rpc.server import Handler, RpcServer, ServerStatistics

__all__ = ["Handler", "RpcConnection", "RpcServer", "ServerStatistics", "connect"]
