"""The user at the other end of a connection within this machine, according to the kernel.

For TCP by netlink, sock_diag(7): one socket is looked up, however many there are, in less than a millisecond, without
privileges. The result is the user that created the socket.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import struct

#: Not in the socket module: linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h.
_AF_NETLINK = 16
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST = 1
#: nlmsghdr: length, type, flags, sequence, port; inet_diag_req_v2 and inet_diag_sockid before and behind addresses.
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBBI")
_PORTS = struct.Struct("!HH")
_REST = struct.Struct("=III")
#: inet_diag_msg behind the four bytes of its head and its inet_diag_sockid: expires, rqueue, wqueue, uid, inode.
_STATE = struct.Struct("=IIIII")
_SOCKID = 48
_ANY = 0xFFFFFFFF
_CREDENTIALS = struct.Struct("3i")
#: Timeout in seconds; the kernel answers at once.
_TIMEOUT_SECONDS = 1.0


def peer_uid(connection: socket.socket) -> int | None:
    """Return the uid at the other end of an accepted connection; None if it is on another machine, or unknown.

    It is unknown once the peer has closed its socket: the kernel then reports 0, which is root. So call this when a
    connection has been accepted, and keep the result as long as the connection lasts.
    """
    with contextlib.suppress(OSError, ValueError, struct.error):
        if connection.family == socket.AF_UNIX:
            raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            _, uid, _ = _CREDENTIALS.unpack(raw)
            return int(uid)
        peer, own = connection.getpeername(), connection.getsockname()
        family = connection.family
        hosts = [ipaddress.ip_address(address[0].partition("%")[0]) for address in (peer, own)]
        if family == socket.AF_INET6 and all(host.version == 6 and host.ipv4_mapped for host in hosts):
            family = socket.AF_INET
            hosts = [getattr(host, "ipv4_mapped", host) for host in hosts]
        if not hosts[0].is_loopback and hosts[0] != hosts[1]:
            return None
        return _owner(family, (hosts[0].packed, peer[1]), (hosts[1].packed, own[1]))
    return None


def _owner(family: int, source: tuple[bytes, int], target: tuple[bytes, int]) -> int | None:
    """Return the uid of the socket from `source` to `target`.

    Raises:
        OSError: the kernel does not answer.
    """
    sockid = (
        _PORTS.pack(source[1], target[1])
        + source[0].ljust(16, b"\0")
        + target[0].ljust(16, b"\0")
        + _REST.pack(0, _ANY, _ANY)
    )
    request = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, _ANY) + sockid
    head = _HEADER.pack(_HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0)
    with socket.socket(_AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG) as link:
        link.settimeout(_TIMEOUT_SECONDS)
        link.send(head + request)
        answer = link.recv(8192)
    _, kind, *_ = _HEADER.unpack_from(answer)
    if kind != _SOCK_DIAG_BY_FAMILY:
        return None  # an error: there is no such socket
    *_, uid, inode = _STATE.unpack_from(answer, _HEADER.size + 4 + _SOCKID)
    return int(uid) if inode else None


def is_ours(uid: int | None) -> bool:
    """Return True for a user who may read everything that this process may: its own user, and root."""
    return uid is not None and uid in (os.geteuid(), 0)
