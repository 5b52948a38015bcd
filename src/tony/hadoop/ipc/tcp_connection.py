"""Connects a socket to a host and port, with errors that say which step failed."""

from __future__ import annotations

import asyncio
import os
import socket
from dataclasses import dataclass
from functools import partial

from tony.address import Address
from tony.hadoop.errors import ConnectError, ConnectFailure
from tony.hadoop.ipc.frames import MAX_FRAME


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """Settings of one connection; the defaults are Hadoop's.

    Attributes:
        connect_timeout: seconds for TCP, all addresses of a name together (`ipc.client.connect.timeout`).
        login_timeout: seconds for the negotiation; with Kerberos the KDC is part of it.
        call_timeout: seconds for an answer; None waits forever (`ipc.client.rpc-timeout.ms`, 120 s since 3.4).
        ping_interval: seconds of silence with a call pending until a ping is sent (`ipc.ping.interval`).
        dead_after: seconds that bytes may stay unacknowledged until the kernel drops the connection.
        max_answer: bytes of the longest answer (`ipc.maximum.response.length`).
    """

    connect_timeout: float = 20.0
    login_timeout: float = 30.0
    call_timeout: float | None = 120.0
    ping_interval: float = 60.0
    dead_after: float = 60.0
    max_answer: int = MAX_FRAME


DEFAULTS = ConnectionOptions()


Place = tuple[int, tuple[object, ...]]


async def dial(address: Address, options: ConnectionOptions) -> socket.socket:
    """Return a socket connected to the first place of the address that answers.

    Raises:
        ConnectError: says which way it failed.
    """
    try:
        async with asyncio.timeout(options.connect_timeout):
            return await _dial(address, options)
    except TimeoutError:
        raise ConnectError(
            f"cannot connect to {address}: no response within {options.connect_timeout:g} s. "
            "Is the address right, and can this machine reach it (firewall, VPN)?",
            ConnectFailure.TIMED_OUT,
        ) from None


async def _dial(address: Address, options: ConnectionOptions) -> socket.socket:
    loop = asyncio.get_running_loop()
    failures: list[OSError] = []
    for family, target in await _resolve_places(address):
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            _prepare(sock, options)
            await loop.sock_connect(sock, target)
            if sock.getsockname() == sock.getpeername():
                raise ConnectionRefusedError(111, "Connection refused")  # Linux can connect a free port to itself
            return sock
        except OSError as error:
            sock.close()
            failures.append(error)
        except BaseException:
            sock.close()
            raise
    raise _build_failure(address, failures)


async def _resolve_places(address: Address) -> list[Place]:
    find = partial(socket.getaddrinfo, address.host, address.port, type=socket.SOCK_STREAM)
    try:
        try:
            # A number needs no waiting, and so no thread.
            found = find(flags=socket.AI_NUMERICHOST)
        except socket.gaierror:
            found = await asyncio.get_running_loop().run_in_executor(None, find)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConnectError(
            f"cannot connect to {address}: unknown host ({reason}). "
            "Is the name right, and does this machine's DNS know the cluster?",
            ConnectFailure.UNKNOWN_HOST,
        ) from None
    return [(family, target) for family, _, _, _, target in found]


def _prepare(sock: socket.socket, options: ConnectionOptions) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(options.dead_after * 1000))


def _build_failure(address: Address, failures: list[OSError]) -> ConnectError:
    refused = [error for error in failures if isinstance(error, ConnectionRefusedError)]
    if refused and len(refused) == len(failures):
        return ConnectError(
            f"cannot connect to {address}: connection refused. Is the daemon running, and is the port right?",
            ConnectFailure.REFUSED,
        )
    error = next((failure for failure in failures if not isinstance(failure, ConnectionRefusedError)), None)
    reason = os.strerror(error.errno) if error is not None and error.errno else str(error or "no address")
    kind = ConnectFailure.TIMED_OUT if isinstance(error, TimeoutError) else ConnectFailure.UNREACHABLE
    return ConnectError(f"cannot connect to {address}: {reason}", kind)
