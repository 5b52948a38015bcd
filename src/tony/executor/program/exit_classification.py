"""Classifies how a task attempt ended. Pure."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tony.linux.process import format_signal
from tony.model.program_exit import ExitReason
from tony.model.staged_files import LeftOut
from tony.units import format_duration

#: Number of process names in a message.
_MAX_NAMES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessExit:
    """End of one process of the program, at time `at`: by exit code or by signal number."""

    process: int
    code: int | None
    signum: int | None
    at: float

    @property
    def failed(self) -> bool:
        """Return True unless the exit code is 0."""
        return self.code != 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitObservation:
    """Observations of a task attempt.

    Attributes:
        ends: exits of all its processes, in the order of their arrival.
        through_shell: bash ran the command, so that codes above 128 may be signals of its children.
        stopped: the executor stopped it before the decisive exit.
        stop_reason: why.
        forced_after: seconds of grace that were not enough; None if it ended in time.
        memory: what happened at the memory limit; empty if it was kept.
        collision: which process had its port; empty if none.
        missing: which file it did not find, and why; empty if none.
        loss: which output is not on disk; empty if none is missing.
        left: names of processes that it left running when it exited by itself, and that were killed.
        undead: pids of its processes that could not be killed.
    """

    ends: Sequence[ProcessExit]
    through_shell: bool = False
    stopped: bool = False
    stop_reason: str = ""
    forced_after: float | None = None
    memory: str = ""
    collision: str = ""
    missing: str = ""
    loss: str = ""
    left: Sequence[str] = ()
    undead: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifiedExit:
    """The decisive exit, and why the task attempt ended."""

    end: ProcessExit
    reason: ExitReason
    message: str


def classify_exit(seen: ExitObservation) -> ClassifiedExit:
    """Find the decisive exit (the first failure, else the last exit), the reason and the message."""
    end = next((end for end in seen.ends if end.failed), seen.ends[-1])
    reason, head = _find_reason(seen, end)
    notes = []
    if len(seen.ends) > 1 and end.failed and reason is ExitReason.EXITED:
        notes.append(f"the process with LOCAL_RANK {end.process} was the first of {len(seen.ends)} to fail")
    if seen.missing and reason is ExitReason.EXITED:
        notes.append(seen.missing)
    if seen.memory and reason is not ExitReason.MEMORY:
        notes.append(seen.memory)
    if seen.forced_after is not None:
        late = f"it did not exit within {format_duration(seen.forced_after)} of SIGTERM and was killed"
        notes.append(late if seen.forced_after else "SIGKILL followed SIGTERM at once")
    if seen.loss:
        notes.append(seen.loss)
    if seen.left and reason is ExitReason.EXITED:
        notes.append(_describe_left_behind(seen.left))
    if seen.undead:
        notes.append(f"could not be killed: {', '.join(map(str, seen.undead))}")
    plain = reason is ExitReason.EXITED and not notes and head == _describe_end(end)
    return ClassifiedExit(end=end, reason=reason, message="" if plain else "; ".join([head, *notes]))


def _describe_left_behind(names: Sequence[str]) -> str:
    one = len(names) == 1
    count = "one process" if one else f"{len(names)} processes"
    shown = ", ".join(dict.fromkeys(names[:_MAX_NAMES])) + (", ..." if len(names) > _MAX_NAMES else "")
    were = "was" if one else "were"
    return f"it left {count} running, which {were} killed ({shown}): the task ends when its command exits"


def _find_reason(seen: ExitObservation, end: ProcessExit) -> tuple[ExitReason, str]:
    if seen.stopped:
        return ExitReason.STOPPED, f"stopped ({seen.stop_reason})" if seen.stop_reason else "stopped"
    if end.failed and seen.memory:
        return ExitReason.MEMORY, seen.memory
    if end.failed and seen.collision:
        return ExitReason.PORT_COLLISION, seen.collision
    if seen.through_shell and end.code is not None and 128 < end.code <= 128 + signal.SIGRTMAX:
        name = format_signal(end.code - 128)
        detail = f"a process of its shell was killed by {name}, or exited with this code"
        return ExitReason.EXITED, f"exit code {end.code} ({detail})"
    return ExitReason.EXITED, _describe_end(end)


def _describe_end(end: ProcessExit) -> str:
    return f"exit code {end.code}" if end.signum is None else f"killed by {format_signal(end.signum)}"


_NO_FILE = re.compile(r"no such file or directory|FileNotFoundError|ENOENT", re.IGNORECASE)
#: These may also mean that something else is missing, such as a column or a key.
_NOT_FOUND = re.compile(r"does not exist|not found", re.IGNORECASE)
_QUOTED = re.compile(r"""'([^']+)'|"([^"]+)"|`([^`']+)[`']""")
_SEPARATORS = re.compile(r"""[\s'"`:;,()<>=\[\]]+""")


def explain_missing_file(tail: Sequence[str], left_out: LeftOut | None, work_folder: str) -> str:
    """Return a sentence about the left-out file that the program did not find; empty if there is none.

    Args:
        tail: the program's last lines.
    """
    if left_out is None:
        return ""
    tops = tuple({os.path.normpath(work_folder), os.path.realpath(work_folder)})
    for line in reversed(tail):
        is_about_files = _NO_FILE.search(line) is not None
        if not is_about_files and not _NOT_FOUND.search(line):
            continue
        for word, path in _find_paths(line, tops):
            entry = _find_entry(path, left_out.paths)
            if entry and (is_about_files or "/" in word or not entry.endswith("/")):
                return f"{entry} was left out of the job's source by {left_out.ignore_file} ({left_out.remedy})"
    return ""


def _find_paths(line: str, tops: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each word that may be a path below the working directory, and that path: relative to it or to a folder in
    it."""
    words = [next(filter(None, match)) for match in _QUOTED.findall(line)]
    for word in (*words, *_SEPARATORS.split(line)):
        path = os.path.normpath(word) if word else ""
        for top in tops:
            path = path.removeprefix(f"{top}/")
        while path.startswith("../"):
            path = path[len("../") :]
        if path not in ("", ".", "..") and not path.startswith("/"):
            yield word, path


def _find_entry(path: str, entries: Sequence[str]) -> str:
    """Return the left-out file or folder that a path leads to, seen from the top, else from any folder; or nothing."""
    for entry in entries:
        if _leads_to(path, entry.rstrip("/")):
            return entry
    for entry in entries:
        parts = entry.rstrip("/").split("/")
        if any(_leads_to(path, "/".join(parts[number:])) for number in range(1, len(parts))):
            return entry
    return ""


def _leads_to(path: str, entry: str) -> bool:
    return path == entry or path.startswith(f"{entry}/")
