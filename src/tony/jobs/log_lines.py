"""Lines of output: split from the bytes of a stream, and merged over streams by their times."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tony.linux.time_index import PER_SECOND
from tony.model.log_name import LogName

#: A longer incomplete line is returned in pieces, so that endless lines do not fill the memory.
MAX_LINE_BYTES = 64 * 1024
#: Maximum lines and approximate bytes passed on at once.
_PORTION_LINES = 500
_PORTION_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of output.

    Attributes:
        data: the bytes as printed, without the newline.
        at: when its first byte was read, seconds since 1970; None if that is unknown, or was not requested.
    """

    name: LogName
    data: bytes
    at: float | None = None

    @property
    def text(self) -> str:
        """The line as text, without a trailing carriage return; bytes that are not UTF-8 are replaced."""
        return self.data.removesuffix(b"\r").decode("utf-8", errors="replace")


class LineSplitter:
    """Splits the data of one stream into lines, and keeps an incomplete one."""

    def __init__(self, name: LogName) -> None:
        self.name = name
        self._incomplete = b""
        self._at: float | None = None  # of the last byte so far
        self._begun_at: float | None = None  # of the incomplete line

    def split(self, data: bytes, times: Sequence[tuple[int, int]] = ()) -> Iterator[LogLine]:
        """Yield the lines that further data completes, and pieces of one that is too long.

        Args:
            times: offsets in the data and when they were printed, as `time_index.read_times` returns them.
        """
        place, number = -len(self._incomplete), 0
        *lines, self._incomplete = (self._incomplete + data).split(b"\n")
        for line in lines:
            while number < len(times) and times[number][0] <= place:
                self._at = times[number][1] / PER_SECOND
                number += 1
            yield LogLine(self.name, line, self._begun_at if place < 0 else self._at)
            place += len(line) + 1
        for offset, moment in times[number:]:
            if offset > place >= 0:
                break
            self._at = moment / PER_SECOND
        if place >= 0:
            self._begun_at = self._at
        if times:
            self._at = times[-1][1] / PER_SECOND
        while len(self._incomplete) > MAX_LINE_BYTES:
            piece, self._incomplete = self._incomplete[:MAX_LINE_BYTES], self._incomplete[MAX_LINE_BYTES:]
            yield LogLine(self.name, piece, self._begun_at)

    def take(self) -> Iterator[LogLine]:
        """Yield the incomplete line read so far, if any."""
        if self._incomplete:
            rest, self._incomplete = self._incomplete, b""
            yield LogLine(self.name, rest, self._begun_at)

    @property
    def unfinished(self) -> bool:
        """True if an incomplete line was read."""
        return bool(self._incomplete)


def group_lines(lines: Iterator[LogLine]) -> Iterator[list[LogLine]]:
    """Group lines into portions, bounded in count and bytes."""
    portion: list[LogLine] = []
    size = 0
    for line in lines:
        portion.append(line)
        size += len(line.data)
        if len(portion) >= _PORTION_LINES or size >= _PORTION_BYTES:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def merge_lines(streams: Sequence[Iterator[LogLine]]) -> Iterator[LogLine]:
    """Yield the lines of several streams in the order of their times, those of one stream in their own order.

    Lines without a time come first, one stream after the other.
    """
    if len(streams) == 1:
        return streams[0]
    return heapq.merge(*streams, key=lambda line: line.at or 0.0)
