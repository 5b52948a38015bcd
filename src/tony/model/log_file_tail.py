"""The end of a task's output, which is kept with its job."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFileTail:
    """The end of one stream of one task attempt.

    Attributes:
        name: of its log file, as `LogName.file` has it.
        offset: bytes that the program had printed before.
        times: offsets in the data and when they were printed, as `time_index.read_times` returns them.
    """

    name: str
    offset: int
    data: bytes
    times: tuple[tuple[int, int], ...] = ()
