"""The system calls that the threads of a process wait in, from /proc. Only x86-64 and 64-bit ARM are known."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping

#: Number of a system call -> its name, of those in which threads wait.
_CALLS: Mapping[str, Mapping[int, str]] = {
    "x86_64": {
        0: "read", 7: "poll", 17: "pread64", 23: "select", 35: "nanosleep", 42: "connect", 43: "accept", 45: "recvfrom",
        47: "recvmsg", 61: "wait4", 202: "futex", 230: "clock_nanosleep", 232: "epoll_wait", 247: "waitid",
        270: "pselect6", 271: "ppoll", 281: "epoll_pwait", 288: "accept4",
    },
    "aarch64": {
        22: "epoll_pwait", 63: "read", 67: "pread64", 72: "pselect6", 73: "ppoll", 95: "waitid", 98: "futex",
        101: "nanosleep", 115: "clock_nanosleep", 202: "accept", 203: "connect", 207: "recvfrom", 212: "recvmsg",
        242: "accept4", 260: "wait4",
    },
}  # fmt: skip
#: Variants of a call, by the name of the usual one.
_SAME_CALLS: Mapping[str, str] = {"epoll_pwait": "epoll_wait", "waitid": "wait4", "accept4": "accept", "ppoll": "poll"}
#: Threads of one process that are examined.
_MAX_THREADS = 1000


def count_switches(pid: int) -> int:
    """Return how often the main thread of a process has waited; -1 if that is not known."""
    for line in _read(f"/proc/{pid}/task/{pid}/status").splitlines():
        if line.startswith("voluntary_ctxt_switches:"):
            return int(line.split()[1])
    return -1


def describe_waits(pid: int) -> tuple[str, str]:
    """Return the system call of the main thread, and those of the others; empty if that is not known or permitted."""
    try:
        threads = sorted(map(int, os.listdir(f"/proc/{pid}/task")))[:_MAX_THREADS]
    except (OSError, ValueError):
        return "", ""
    calls = {thread: _describe_wait(pid, thread) for thread in threads}
    main = calls.pop(pid, "")
    return (main, ", ".join(sorted(set(calls.values())))) if main and all(calls.values()) else ("", "")


def _describe_wait(pid: int, thread: int) -> str:
    """Return a word such as `futex`, `sleep` or `read a pipe`; empty if it is not known."""
    words = _read(f"/proc/{pid}/task/{thread}/syscall").split()
    if not words or words[0] in ("running", "-1"):
        return {"running": "running", "-1": "no system call"}[words[0]] if words else ""
    number, *arguments = int(words[0]), *(int(word, 16) for word in words[1:7])
    name = _CALLS.get(platform.machine(), {}).get(number, f"system call {number}")
    if name in ("nanosleep", "clock_nanosleep") or (name in ("select", "pselect6") and arguments[0] == 0):
        return "sleep"
    if name == "read":
        return f"read {_describe_file(pid, arguments[0])}"
    # The timeout of `poll` is an int, that of `ppoll` a pointer.
    if (name == "poll" and arguments[2] & 0x80000000) or (name == "ppoll" and not arguments[2]):
        return "poll without timeout"
    return _SAME_CALLS.get(name, name)


def _describe_file(pid: int, number: int) -> str:
    try:
        kind = os.readlink(f"/proc/{pid}/fd/{number}").partition(":")[0]
    except OSError:
        return "a file"
    return f"a {kind}" if kind in ("pipe", "socket") else "a file"


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(8192).decode(errors="replace")
    except OSError:
        return ""
