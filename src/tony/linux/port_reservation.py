"""Reserves ports for a program that has not started yet.

A bound socket that does not listen keeps its port from automatic assignment (`bind` to port 0, outgoing connections).
With *both* SO_REUSEADDR and SO_REUSEPORT on it, a server that sets either of them can still bind the port and listen;
one that sets neither cannot. Nothing makes a port exclusive to a program: `listeners` finds others that took it.

The options are set *after* binding: bound without them, the holder gets a port that no other process has, not even
another holder; set afterwards, they still let servers in, because Linux checks conflicts by the options that sockets
have when the new one binds (a test checks this on the running kernel).
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass

from tony.errors import InfraError
from tony.linux.process import command_of
from tony.linux.socket_owners import list_listening_inodes

#: Characters of a command line in a message.
_MAX_COMMAND_CHARACTERS = 200


class PortsExhaustedError(InfraError):
    """No port could be reserved."""


class Reservation:
    """One reserved port, until `close`, which may be called twice."""

    __slots__ = ("_holder", "port")

    def __init__(self, holder: socket.socket) -> None:
        self._holder = holder
        self.port: int = holder.getsockname()[1]

    def listen(self) -> socket.socket:
        """Return a socket that listens on the port, so that connections to it are accepted from now on.

        Raises:
            PortsExhaustedError: another process listens there already without sharing the port.
        """
        listening = socket.socket(self._holder.family, socket.SOCK_STREAM)
        try:
            if listening.family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(self._holder.getsockname()[:2])
            listening.listen(socket.SOMAXCONN)
        except OSError as error:
            listening.close()
            raise PortsExhaustedError(
                f"port {self.port}, just reserved, cannot be listened on: {error.strerror}"
            ) from error
        return listening

    def close(self) -> None:
        """Release the port: the kernel may assign it to any process."""
        self._holder.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A process that listens on a port.

    Attributes:
        pid: None for another user's process, which the kernel does not report.
        uid: the user it belongs to.
        command: its command line; empty where unknown.
    """

    port: int
    uid: int
    pid: int | None
    command: str

    def __str__(self) -> str:
        if self.pid is None:
            return f"a process of user {self.uid}"
        return f"process {self.pid} ({self.command[:_MAX_COMMAND_CHARACTERS]})"


def reserve(port_range: tuple[int, int] | None = None) -> Reservation:
    """Reserve a port that no other process has, on all addresses of the host.

    Args:
        port_range: first and last port to choose from, both included; None lets the kernel choose.

    Raises:
        PortsExhaustedError: every port of the range is taken.
    """
    if port_range is None:
        holder = _hold(0)
        if holder is None:
            raise PortsExhaustedError(
                "no port could be reserved: the kernel has no free port left for automatic assignment"
            )
        return Reservation(holder)
    first, last = port_range
    size = last + 1 - first
    # From a random one, so that the executors of one host do not all try the same ones first.
    begin = int.from_bytes(os.urandom(4), "big")
    for step in range(size):
        holder = _hold(first + (begin + step) % size)
        if holder is not None:
            return Reservation(holder)
    raise PortsExhaustedError(
        f"no port could be reserved: all {size} ports of port_range = {first}-{last} are taken on this host "
        "or not permitted; give the job a wider port_range, or none to let the system choose"
    )


def listeners(port: int) -> list[Listener]:
    """Return all processes that listen on a port of this host, on any address."""
    inodes = list_listening_inodes(port)
    if not inodes:
        return []
    owners = _owners(inodes)
    return [
        Listener(port=port, uid=uid, pid=(pid := owners.get(inode)), command=command_of(pid) if pid else "")
        for inode, uid in inodes.items()
    ]


def _hold(port: int) -> socket.socket | None:
    for family, address in ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")):
        try:
            holder = socket.socket(family, socket.SOCK_STREAM)
        except OSError:
            continue  # a kernel without IPv6
        try:
            if family == socket.AF_INET6:
                holder.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            holder.bind((address, port))
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            return holder
        except OSError as error:
            holder.close()
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return None
            if family == socket.AF_INET:
                raise
    return None


def _owners(inodes: Iterable[int]) -> dict[int, int]:
    """Return inode -> a process that has it open, as far as permitted."""
    inode_of_link = {f"socket:[{inode}]": inode for inode in inodes}
    owners: dict[int, int] = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            for descriptor in os.listdir(f"/proc/{pid}/fd"):
                inode = inode_of_link.get(os.readlink(f"/proc/{pid}/fd/{descriptor}"))
                if inode is not None:
                    owners.setdefault(inode, int(pid))
        except OSError:
            continue
    return owners
