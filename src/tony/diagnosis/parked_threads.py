"""Detects in a dump of a program that its main thread sleeps or waits for a lock and no thread reads input. Pure.

A program that reads slowly, such as from remote storage, must not look like one that waits forever.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

#: The line of a process, as `stack_dump.format_waits` writes it.
_WAITS = re.compile(
    r"^main thread in (?P<main>[\w ]{1,40}) \((?P<before>\d{1,18}) waits before, (?P<after>\d{1,18}) after\)"
    r"(?:; other threads in (?P<others>[\w ,]{1,500}))?$",
    re.MULTILINE,
)
#: What threads other than the main one may be in. Pools of C++ code, such as of gRPC, wait for events all the time; who
#: feeds a pipe is a process of the program, too.
_IDLE_CALLS = frozenset({"futex", "sleep", "epoll_wait", "poll without timeout", "read a pipe", "wait4", "running"})
#: The same of a process without stack traces of Python, such as a shell: a download may wait for events, or a lock.
_IDLE_CALLS_OF_OTHERS = frozenset({"sleep", "read a pipe", "wait4"})
_PYTHON_THREAD = re.compile(r"^(?:Current thread|Thread) ", re.MULTILINE)
#: Files of Python whose functions wait for other threads, and of the thread that answers for tony.
_LOCK_FILES = re.compile(r"(?:^|/)(?:threading|queue|concurrent/futures/\w+|tony_collective_trace)\.py$")


@dataclass(frozen=True, slots=True)
class ParkedThread:
    """A main thread that sleeps or waits for a lock.

    Attributes:
        is_native: it waits for a lock in compiled code that user code has called, or in the lock itself.
        waits_before, waits_after: how often it had waited before and after its stack trace was read. If it has not
            waited again until the next dump, it has been asleep all the time.
    """

    waits_before: int
    waits_after: int
    is_native: bool = False


def find_parked_thread(
    process: str, processes: Sequence[str], called: Sequence[str], others: Sequence[str]
) -> ParkedThread | None:
    """Return how the main thread of a process sleeps or waits for a lock; None if it may wait for input.

    Args:
        process: the dump of the process.
        processes: those of all processes of the program.
        called: the files of the functions that user code has called in the main thread.
        others: the files of the innermost functions of the other threads of the process.
    """
    own = _WAITS.search(process)
    if own is None:
        return None
    parked = ParkedThread(int(own["before"]), int(own["after"]))
    is_asleep = own["main"] == "sleep"
    if (is_asleep and called) or not (is_asleep or own["main"] == "futex"):
        return None  # libraries sleep before they try again to read
    if not _are_locks([*called, *others]) or not all(map(_is_idle, processes)):
        return None
    return replace(parked, is_native=not is_asleep and not called)


def _is_idle(process: str) -> bool:
    """Return True if no thread of a process may read input; False if its system calls are not known."""
    match = _WAITS.search(process)
    if match is None:
        return False
    calls = {match["main"], *filter(None, (match["others"] or "").split(", "))}
    return calls <= (_IDLE_CALLS if _PYTHON_THREAD.search(process) else _IDLE_CALLS_OF_OTHERS)


def _are_locks(files: Iterable[str]) -> bool:
    return all(_LOCK_FILES.search(file) for file in files)
