"""The users of sockets on this host: of those that listen on a port, and of the other end of a connection.

Read by netlink (sock_diag(7)), without privileges: one connection is looked up, however many there are, and for a port
the kernel walks over the listening sockets only: 0.04 ms. Where that is not available (a kernel without `inet_diag`, a
container that forbids it) listening sockets are read from `/proc/net/tcp`, for which the kernel walks over its table of
all connections, however few there are: 7 ms on a machine with 24 GB.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import socket
import struct
import sys
from collections.abc import Iterable
from itertools import islice

from tony.linux.kernel_files import parse_number

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTEN_IN_TABLE = "0A"
#: linux/netlink.h, linux/sock_diag.h and linux/inet_diag.h, in the machine's byte order but for ports.
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST = 0x0001
_REQUEST_DUMP = _NLM_F_REQUEST | 0x0300
_ERROR = 2
_DONE = 3
_TCP_LISTEN = 10
_HEADER = struct.Struct("=LHHLL")
#: struct inet_diag_req_v2: family, protocol, extensions, padding, states, then the socket sought: its port, the rest 0.
_REQUEST = struct.Struct("=BBBBL2s46x")
#: struct inet_diag_msg: family, state, timer, retransmits; the socket's port, the rest of its id; then numbers.
_ANSWER = struct.Struct("=BBBB2s46xLLLLL")
#: For one connection: inet_diag_req_v2, and its inet_diag_sockid before and behind the addresses.
_LOOKUP = struct.Struct("=BBBBI")
_PORTS = struct.Struct("!HH")
_REST = struct.Struct("=III")
#: inet_diag_msg behind the four bytes of its head and its inet_diag_sockid: expires, rqueue, wqueue, uid, inode.
_STATE = struct.Struct("=IIIII")
_SOCKID = 48
_ANY = 0xFFFFFFFF
_CREDENTIALS = struct.Struct("3i")
_BUFFER = 1 << 16
#: Timeout in seconds; the kernel answers at once.
_TIMEOUT_SECONDS = 1.0


def list_listening_inodes(port: int) -> dict[int, int]:
    """Return inode -> uid of each TCP socket that listens on the port, on any address."""
    try:
        return _query(port)
    except OSError:
        return _read_tables(port)


def _query(port: int) -> dict[int, int]:
    found: dict[int, int] = {}
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as link:
        link.settimeout(_TIMEOUT_SECONDS)
        for family in (socket.AF_INET, socket.AF_INET6):
            request = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, 1 << _TCP_LISTEN, port.to_bytes(2, "big"))
            link.send(_HEADER.pack(_HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, 1, 0) + request)
            while read_packet(link.recv(_BUFFER), port, found):
                pass
    return found


def read_packet(data: bytes, port: int, found: dict[int, int]) -> bool:
    """Add the sockets of one packet of the kernel's answer; return True if more packets follow.

    Raises:
        OSError: the kernel refuses.
    """
    offset = 0
    while offset + _HEADER.size <= len(data):
        size, kind, _, _, _ = _HEADER.unpack_from(data, offset)
        body = offset + _HEADER.size
        if kind == _DONE:
            return False
        if body + size > len(data) + _HEADER.size or (kind == _SOCK_DIAG_BY_FAMILY and body + _ANSWER.size > len(data)):
            raise OSError(errno.EBADMSG, os.strerror(errno.EBADMSG))
        if kind == _ERROR:
            number = -int.from_bytes(data[body : body + 4], sys.byteorder, signed=True)
            raise OSError(number, os.strerror(number) if 0 < number < 4096 else "unknown error")
        if kind == _SOCK_DIAG_BY_FAMILY:
            *_, source, _expires, _received, _sent, uid, inode = _ANSWER.unpack_from(data, body)
            if source == port.to_bytes(2, "big"):
                found[inode] = uid
        offset += (max(size, _HEADER.size) + 3) & ~3
    return True


def _read_tables(port: int) -> dict[int, int]:
    found: dict[int, int] = {}
    for table in _TABLES:
        try:
            with open(table, encoding="ascii") as lines:
                found.update(read_table(lines, port))
        except OSError:
            continue
    return found


def read_table(lines: Iterable[str], port: int) -> dict[int, int]:
    """Parse `/proc/net/tcp`; its first line is a heading."""
    found = {}
    for line in islice(lines, 1, None):
        fields = line.split()
        if len(fields) > 9 and fields[3] == _LISTEN_IN_TABLE and fields[1].endswith(f":{port:04X}"):
            inode, user = parse_number(fields[9]), parse_number(fields[7])
            if inode is not None and user is not None:
                found[inode] = user
    return found


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
    request = _LOOKUP.pack(family, socket.IPPROTO_TCP, 0, 0, _ANY) + sockid
    head = _HEADER.pack(_HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG) as link:
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
