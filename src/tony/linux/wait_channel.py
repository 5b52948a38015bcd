"""Kernel functions in which the threads of a process wait: all that is known of one that is not Python."""

from __future__ import annotations

import os

#: Maximum threads of a process, and lines of the kernel stack of one.
_MAX_THREADS = 20
_MAX_STACK_LINES = 30
_STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "waiting for I/O",
    "T": "stopped",
    "t": "stopped by a debugger",
    "Z": "ended, not waited for",
    "I": "idle",
}


def wait_channel(pid: int) -> str:
    """Return state and wait channel of each thread, and, where permitted, the kernel stack; empty if it has exited."""
    try:
        threads = sorted(os.listdir(f"/proc/{pid}/task"), key=int)
    except (OSError, ValueError):
        return ""
    found = [_thread(f"/proc/{pid}/task/{thread}", thread) for thread in threads[:_MAX_THREADS]]
    if len(threads) > _MAX_THREADS:
        found.append(f"and {len(threads) - _MAX_THREADS} more threads\n")
    return "".join(found)


def command_of(pid: int) -> str:
    """Return the command line of a process in one line; its name where there is none."""
    line = _read(f"/proc/{pid}/cmdline", 4096).replace("\0", " ").strip()
    return " ".join(line.split()) or f"[{_read(f'/proc/{pid}/comm', 64).strip() or '?'}]"


def _thread(folder: str, number: str) -> str:
    fields = _read(f"{folder}/stat", 1024).rpartition(")")[2].split()
    state = _STATES.get(fields[0], fields[0]) if fields else "exited"
    place = _read(f"{folder}/wchan", 200).strip()
    name = _read(f"{folder}/comm", 64).strip()
    where = f" in {place}" if place not in ("", "0") else ""
    stack = _read(f"{folder}/stack", 8192).splitlines()[:_MAX_STACK_LINES]
    return "".join([f"thread {number} ({name}): {state}{where}\n", *(f"    {line}\n" for line in stack)])


def _read(path: str, most: int) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(most).decode(errors="replace")
    except OSError:
        return ""
