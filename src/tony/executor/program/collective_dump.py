"""Reads what libraries record of a program's collective operations: PyTorch's flight recorder, NCCL's RAS service.

Both are read on request if they are there, bounded in time and size, as lines of the stack traces (`stack_dump.py`).
`tony.diagnosis.collective_trace` and `nccl_status` read these lines.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import stat
from collections.abc import Sequence
from functools import partial

from tony import clock
from tony.diagnosis.collective_trace import MAX_TRACE_CHARACTERS, TRACE_PREFIX
from tony.diagnosis.nccl_status import STATUS_HEAD
from tony.linux.anonymous_files import find_open_file, request_answer
from tony.linux.port_reservation import listeners
from tony.linux.process import environment_of
from tony.linux.socket_owners import peer_uid

#: Name of the file of the hook `tony_collective_trace`: its process, the number and inode of its pipe.
_HOOK_FILE = re.compile(r"/memfd:tony-collectives\.(\d{1,9})\.(\d{1,9})\.(\d{1,19}) \(deleted\)")
#: NCCL 2.24 and newer: `src/ras/ras_internal.h` (the port), `src/ras/client_support.cc` (variable, commands).
_RAS_PORT = 28028
_RAS_VARIABLE = b"NCCL_RAS_ADDR="
_RAS_TIMEOUT = b"TIMEOUT 2\n"
_RAS_STATUS = b"VERBOSE STATUS\n"
_RAS_OK = b"OK\n"
#: Libraries that contain NCCL: its own, and PyTorch's where it is linked statically.
_NCCL_LIBRARIES = (b"/libnccl", b"/libtorch_cuda")
_MAX_MAPS_BYTES = 4 << 20
#: Seconds for a whole answer; NCCL waits for its processes twice, for the time in the query.
_RAS_TIMEOUT_SECONDS = 6.0
_MAX_RAS_BYTES = 32 << 10


def read_collectives(pid: int) -> str:
    """Return the collective operations of a process as one line; empty if its PyTorch does not record them."""
    found = find_open_file(pid, lambda name: _match_hook_file(pid, name) is not None)
    match = _match_hook_file(pid, found[1]) if found else None
    if found is None or match is None:
        return ""
    write = partial(_write_byte, f"/proc/{pid}/fd/{match[2]}", int(match[3]))
    text = request_answer(found[0], write, MAX_TRACE_CHARACTERS)
    return f"{TRACE_PREFIX}{text.splitlines()[0]}\n" if text else ""


def _match_hook_file(pid: int, name: str) -> re.Match[str] | None:
    """Return the parts of a name if the file is of this process: children inherit that of their parent."""
    match = _HOOK_FILE.fullmatch(name)
    return match if match and int(match[1]) == pid else None


def _write_byte(path: str, inode: int) -> bool:
    """Write to the hook's pipe; not to another file that has its number now."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        return stat.S_ISFIFO(status.st_mode) and status.st_ino == inode and os.write(descriptor, b"\n") == 1
    finally:
        os.close(descriptor)


def query_ras(pids: Sequence[int], deadline: float) -> str:
    """Return what NCCL reports of its job, if one of these processes serves its queries; else empty.

    One process of a host serves them: the first that has bound the port, perhaps one of another job. It reports of all
    processes of its own job, on all hosts.
    """
    nccl_pids = {pid for pid in pids if clock.monotonic() < deadline and _has_nccl(pid)}
    for port in {_find_ras_port(pid) for pid in nccl_pids}:
        if clock.monotonic() >= deadline:
            break
        server = next((each for each in listeners(port) if each.pid in nccl_pids), None)
        text = _query(port, server.uid, deadline) if server else ""
        if server and text:
            return f"{STATUS_HEAD}, from process {server.pid}\n{text}"
    return ""


def _has_nccl(pid: int) -> bool:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/maps", "rb") as maps:
        text = maps.read(_MAX_MAPS_BYTES)
        return any(library in text for library in _NCCL_LIBRARIES)
    return False


def _find_ras_port(pid: int) -> int:
    for variable in environment_of(pid).split(b"\0"):
        port = variable.removeprefix(_RAS_VARIABLE).rpartition(b":")[2]
        if variable.startswith(_RAS_VARIABLE) and port.isdigit() and len(port) <= 5:
            return int(port)
    return _RAS_PORT


def _query(port: int, uid: int, deadline: float) -> str:
    """Return the answer of a server of that user: at another address of the port another one may listen."""
    data, deadline = b"", min(deadline, clock.monotonic() + _RAS_TIMEOUT_SECONDS)
    left = max(0.0, deadline - clock.monotonic())
    with contextlib.suppress(OSError), socket.create_connection(("localhost", port), left) as link:
        link.sendall(_RAS_TIMEOUT)
        # The kernel knows the user of the other end while the server has the connection open.
        if link.recv(len(_RAS_OK)) != _RAS_OK or peer_uid(link) != uid:
            return ""
        link.sendall(_RAS_STATUS)
        while len(data) < _MAX_RAS_BYTES and (left := deadline - clock.monotonic()) > 0:
            link.settimeout(left)
            more = link.recv(_MAX_RAS_BYTES)
            if not more:
                break
            data += more
    return data[:_MAX_RAS_BYTES].decode(errors="replace")
