"""Linux sockets: long socket paths, the process at the other end, dead peers."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from tony import clock
from tony.errors import InfraError, ProtocolError
from tony.protocol.error_codes import Code
from tony.rpc.am_address import TlsAddress

#: sun_path has 108 bytes, its closing zero included.
_MAX_PATH_BYTES = 107
#: Connections that the kernel queues until they are accepted; it takes the minimum of this and net.core.somaxconn.
BACKLOG = 4096

#: Seconds for which a child may hold the sockets of a process that was killed before the child's exec.
_INHERITED_SECONDS = 5.0
_POLL_SECONDS = 0.05
#: Listen on all addresses of a machine, IPv4 included.
EVERYWHERE = "::"

_CREDENTIALS = struct.Struct("3i")
#: For SO_LINGER: do not linger, reset the connection.
_NO_LINGER = struct.pack("ii", 1, 0)


def describe_error(error: OSError) -> str:
    """Return the system's text of an error, without the numbers that Python adds."""
    number = error.errno or 0
    return os.strerror(number) if number > 0 else error.strerror or str(error)  # errors of name look-ups are negative


async def resolve(address: TlsAddress) -> list[tuple[socket.AddressFamily, tuple[object, ...]]]:
    """Resolve a name to addresses, best first, as `socket.bind` and `connect` take them.

    Raises:
        OSError: an unknown name.
    """
    find = partial(socket.getaddrinfo, address.host, address.port, type=socket.SOCK_STREAM)
    try:
        # A numeric address needs no lookup and so no thread: an executor uses a single one.
        found = find(flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        found = await asyncio.get_running_loop().run_in_executor(None, find)
    return [(family, target) for family, _, _, _, target in found]


@contextmanager
def shorten_path(path: str) -> Iterator[str]:
    """Yield a path of the same socket that fits the kernel's 108 bytes, valid inside the block."""
    if len(os.fsencode(path)) <= _MAX_PATH_BYTES:
        yield path
        return
    folder, name = os.path.split(path)
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)


async def listen_unix(path: str) -> socket.socket:
    """Return a listening Unix socket that only its owner may connect to. A stale socket file is replaced.

    Raises:
        InfraError: another process listens there, or the path cannot be used.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        await _remove_stale(path)
        # The file is created with the mode of the socket, so other users can never connect.
        os.fchmod(listener.fileno(), 0o600)
        with shorten_path(path) as short:
            listener.bind(short)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise InfraError(f"cannot listen on the socket file {path}: {describe_error(error)}") from error
    except BaseException:
        listener.close()
        raise
    return listener


async def _remove_stale(path: str) -> None:
    """Remove the socket file of a process that has ended.

    If a process is killed between the fork and the exec of a child, the child holds its sockets until the exec.
    """
    give_up_at = clock.monotonic() + _INHERITED_SECONDS
    while _has_listener(path):
        if clock.monotonic() > give_up_at:
            raise InfraError(f"cannot listen on {path}: another process listens there")
        await asyncio.sleep(_POLL_SECONDS)


def _has_listener(path: str) -> bool:
    """Return True if a process listens on a socket file; remove it if none does."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return False
    if not stat.S_ISSOCK(mode):
        raise InfraError(f"cannot listen on {path}: a file that is not a socket is in its place; remove it")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, shorten_path(path) as short:
        probe.setblocking(False)
        try:
            probe.connect(short)
        except ConnectionRefusedError:
            with suppress(FileNotFoundError):
                os.unlink(path)
            return False
        except FileNotFoundError:
            return False
        except BlockingIOError:
            pass  # its queue is full: a process listens
    return True


def remove_socket(path: str, inode: int) -> None:
    """Remove this process's socket file, unless another process has replaced it."""
    with suppress(OSError):
        if os.lstat(path).st_ino == inode:
            Path(path).unlink()


async def listen_tcp(address: TlsAddress) -> socket.socket:
    """Return a listening TCP socket.

    Raises:
        InfraError: the address cannot be used.
    """
    try:
        family, target = (await resolve(address))[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if address.host == EVERYWHERE:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listener.bind(target)
            listener.listen(BACKLOG)
            listener.setblocking(False)
        except BaseException:
            listener.close()
            raise
    except OSError as error:
        raise InfraError(f"cannot listen on {address}: {describe_error(error)}") from error
    return listener


async def wait_until_readable(sock: socket.socket) -> None:
    """Return when there is something to read; for a listener, a client that wants to connect."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(sock, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(sock)


def find_peer_process(sock: socket.socket) -> int:
    """Return the process id at the other end of a Unix socket, according to the kernel (0: outside this pid namespace).

    Raises:
        ProtocolError: `peer`, if it runs under another user and not as root.
    """
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(raw)
    if uid not in (os.geteuid(), 0):
        raise ProtocolError(Code.PEER, f"process {pid} belongs to user {uid}, not to {os.geteuid()}")
    return int(pid)


def watch_for_death(sock: socket.socket) -> None:
    """Make the kernel detect within about a minute that the host at the other end is dead.

    Executors send heartbeats, which detect it sooner; this is for peers that only listen.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def reset_at_close(transport: asyncio.BaseTransport) -> None:
    """Make a TCP connection end with a reset: at once, and visibly abnormal to the other side."""
    with suppress(OSError):
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
