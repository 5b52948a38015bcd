"""Response types of operations on logs. Their docstrings are part of the OpenAPI document."""

from __future__ import annotations

from dataclasses import dataclass

from tony.jobs.log_files import LogFileInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class LogList:
    """The logs of a task: one for each stream of each task attempt.

    Attributes:
        missing: output on other machines that could not be fetched, and why; empty if none.
    """

    logs: tuple[LogFileInfo, ...]
    missing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTimes:
    """When a part of a log was printed.

    Attributes:
        times: offset of a byte, and its time in hundredths of a second since 1970. Bytes up to the next one have the
            same time. The first is the last known one at or before the part, if there is one.
    """

    name: str
    times: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLineFacts:
    """A line of output, as printed by `tony logs --json`, with its position.

    Attributes:
        time: when it was printed, seconds since 1970; null if unknown.
        line: text; invalid UTF-8 and what looks like a secret are replaced.
        position: for `before` and `after`.
    """

    task: str
    session: int
    try_: int
    stream: str
    time: float | None
    line: str
    position: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLines:
    """Lines of a job's logs, in the order of their times.

    Attributes:
        before: position for earlier lines; empty if these are the first ones.
        after: position for later lines; empty if there is no output yet. A line that was printed before it and becomes
            visible only later is not among them.
        is_cut: only a part of the logs was searched: continue at `before`, or at `after` if that was given.
        is_complete: these are the last lines, and no more will follow.
        missing: output on other machines that could not be fetched, and why; empty if none.
    """

    lines: tuple[LogLineFacts, ...]
    before: str
    after: str
    is_cut: bool
    is_complete: bool
    missing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunk:
    """A part of a log.

    Attributes:
        offset: of its first byte among the bytes available.
        next: offset at which to continue.
        size: bytes available now.
        text: the bytes as text; invalid UTF-8 and text that looks like a secret are replaced.
    """

    name: str
    offset: int
    next: int
    size: int
    text: str
