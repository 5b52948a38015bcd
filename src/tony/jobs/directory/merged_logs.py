"""Lines of several logs in the order of their times, from any position on in either direction, perhaps with a text.

A sweep goes through all logs at once: the next chunk is always read of the log that is least far, so a page of a
thousand large logs costs a small chunk of each that printed then. What is read for one page is bounded; the result says
where to continue.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tony.jobs.directory.log_search import SearchText, list_lines
from tony.jobs.directory.open_log import OpenLog
from tony.linux.time_index import PER_SECOND
from tony.model.log_name import OUT, LogName

#: Maximum bytes read for one result.
MAX_READ_BYTES = 16 << 20
#: Bytes that are read of a log at first, and of all logs together; of a log that has many of the lines, more each time.
_LEAST_CHUNK = 4 << 10
_FIRST_CHUNK = 64 << 10
_FIRST_CHUNKS = 4 << 20
_LARGEST_CHUNK = 256 << 10
_SEARCH_CHUNK = 512 << 10
#: Bytes that a time counts as: a foreign index may have one for each byte of its log.
_BYTES_PER_TIME = 16
#: A longer line is returned in pieces.
_MAX_LINE_BYTES = 64 << 10
_MAX_NUMBER_DIGITS = 19
#: Before all logs.
_NO_NAME = LogName("", -1, 0, 0, OUT)

OpenByName = Callable[[LogName], AbstractContextManager[OpenLog]]
_Key = tuple[int, int, int]
#: Key, log, and of a line its bytes and the offset after it; None: the place up to which the log was read.
_Item = tuple[_Key, "_Log", tuple[bytes, int] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPosition:
    """A place between two lines of a job's logs, as its text form in addresses.

    Attributes:
        moment: time of the line after it, in hundredths of a second since 1970; 0 if unknown.
        name, offset: that line's log, and its place there.
    """

    moment: int
    name: LogName = _NO_NAME
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.moment}-{self.offset}-{self.name.file}"

    @classmethod
    def parse(cls, text: str) -> LogPosition:
        """Parse the form of `__str__`.

        Raises:
            ValueError: it is another text.
        """
        moment, _, rest = text.partition("-")
        offset, _, file = rest.partition("-")
        name = LogName.parse(file)
        numbers = (moment, offset)
        if name is None or not all(each.isascii() and each.isdigit() for each in numbers):
            raise ValueError(f"{text[:60]!r} is not a position in the logs")
        if max(map(len, numbers)) > _MAX_NUMBER_DIGITS or name.file != file:
            raise ValueError(f"{text[:60]!r} is not a position in the logs")
        return cls(moment=int(moment), name=name, offset=int(offset))


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedLine:
    """A line.

    Attributes:
        data: without the newline, with secrets masked.
        start, end: the positions before and after it.
    """

    data: bytes
    start: LogPosition
    end: LogPosition

    @property
    def at(self) -> float | None:
        """When it was printed, seconds since 1970; None if unknown."""
        return self.start.moment / PER_SECOND if self.start.moment else None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedLines:
    """A part of the lines of several logs.

    Attributes:
        earlier, later: where further lines are, before and after these; None if there are none now.
        is_cut: the limit of bytes was reached before enough lines were found.
    """

    lines: tuple[MergedLine, ...]
    earlier: LogPosition | None
    later: LogPosition | None
    is_cut: bool


@dataclass(slots=True, eq=False)
class _Log:
    """How far a log was read.

    Attributes:
        rank: its place among the logs; of lines of the same time, those of the lower rank come first.
        offset: lines beyond were read: before it in a sweep forwards, after it backwards.
        moment: time of the next line; of a sweep backwards, the latest that it may have.
    """

    name: LogName
    rank: int
    chunk: int
    offset: int = 0
    moment: int = 0

    def build_position(self, moment: int, offset: int) -> LogPosition:
        return LogPosition(moment=moment, name=self.name, offset=offset)


@dataclass(slots=True, kw_only=True)
class LogSweep:
    """Reads lines of several logs.

    Args:
        open_log: opens a log; raises `LookupError` if it was removed.
        names: of the logs.
        max_lines: maximum number of lines.
        backwards: from the start position towards the beginning.
        text: only lines that contain it; None for all.
        remaining_bytes: how many bytes may be read; a chunk more, in fact. Times count as well.
    """

    open_log: OpenByName
    names: Sequence[LogName]
    max_lines: int
    backwards: bool
    text: SearchText | None = None
    remaining_bytes: int = MAX_READ_BYTES

    def read(self, start: LogPosition | None) -> MergedLines:
        """Return the next lines from a position on; from the beginning (or the end, if backwards) without one."""
        chunk = min(_FIRST_CHUNK, max(_LEAST_CHUNK, _FIRST_CHUNKS // max(1, len(self.names))))
        logs = [
            _Log(name, rank, _SEARCH_CHUNK if self.text else chunk)
            for rank, name in enumerate(sorted(self.names, key=lambda name: name.order))
        ]
        found: list[MergedLine] = []
        beyond: LogPosition | None = None
        for (moment, _, offset), log, span in heapq.merge(
            *(self._iterate_log(log, start) for log in logs), key=_get_key
        ):
            position = log.build_position(abs(moment), abs(offset))
            if len(found) == self.max_lines:
                beyond = found[-1].start if self.backwards else found[-1].end
                break
            if span is not None:
                data, end = span
                found.append(MergedLine(data=data, start=position, end=log.build_position(abs(moment), end)))
            elif self.remaining_bytes <= 0:
                beyond = position
                break
        is_cut = beyond is not None and len(found) < self.max_lines
        if self.backwards:
            return MergedLines(lines=tuple(reversed(found)), earlier=beyond, later=start, is_cut=is_cut)
        return MergedLines(lines=tuple(found), earlier=start, later=beyond, is_cut=is_cut)

    def _iterate_log(self, log: _Log, start: LogPosition | None) -> Iterator[_Item]:
        """Yield the lines of a log in the direction of the sweep, and before each chunk is read where it begins."""
        with self._open(log) as opened:
            if opened is None:
                return
            log.offset = self._find_start(opened, log.name, start)
            has_more = self._find_moment(log, opened)
        while has_more:
            yield self._build_key(log.moment, log.rank, log.offset), log, None
            with self._open(log) as opened:
                if opened is None:
                    return
                block, begin, times = self._read_chunk(log, opened)
                has_more = bool(block) and self._find_moment(log, opened)
            for first, last in self._iterate_lines(block):
                known = bisect_right(times, begin + first, key=lambda each: each[0])
                moment = times[known - 1][1] if known else 0
                key = self._build_key(moment, log.rank, begin + first)
                after = begin + min(last + 1, len(block))  # the last line may not have a newline yet
                yield key, log, (block[first:last], after)

    def _iterate_lines(self, block: bytes) -> Iterator[tuple[int, int]]:
        """Yield start and end of the lines of a block in the direction of the sweep, without a list of them."""
        if self.text is None:
            return list_lines(block, backwards=self.backwards)
        if self.backwards:
            return self.text.find_last_lines(block, self.max_lines + 1)  # one more: it says that there are earlier ones
        return self.text.find_lines(block)

    def _open(self, log: _Log) -> AbstractContextManager[OpenLog | None]:
        return _OpenOrNone(self.open_log, log.name)

    def _build_key(self, moment: int, rank: int, offset: int) -> _Key:
        """Return a sort key: ascending in the direction of the sweep."""
        return (-moment, -rank, -offset) if self.backwards else (moment, rank, offset)

    def _find_start(self, opened: OpenLog, name: LogName, start: LogPosition | None) -> int:
        """Return the offset of the first line of a log that is not before the start position."""
        if start is None:
            return opened.size if self.backwards else 0
        if not opened.has_times:
            if name == start.name:
                return min(start.offset, opened.size)
            return opened.size if (0, name.order) < (start.moment, start.name.order) else 0
        if name == start.name and _is_at(opened, start):
            return start.offset
        return opened.find_time(start.moment + (name.order <= start.name.order))

    def _find_moment(self, log: _Log, opened: OpenLog) -> bool:
        """Note the time of the next line of a log; return False if there is none."""
        if not (log.offset > 0 if self.backwards else log.offset < opened.size):
            return False
        place = log.offset - self.backwards
        times = opened.read_times(place, place + 1)
        log.moment = times[0][1] if times and times[0][0] <= place else 0
        return True

    def _read_chunk(self, log: _Log, opened: OpenLog) -> tuple[bytes, int, list[tuple[int, int]]]:
        """Return the next whole lines of a log, where they begin, and their times; moves the log's offset."""
        while True:
            begin = max(0, log.offset - log.chunk) if self.backwards else log.offset
            end = log.offset if self.backwards else min(opened.size, log.offset + log.chunk)
            data = opened.read_masked(begin, end - begin)
            self.remaining_bytes -= len(data)
            start, stop = self._find_whole_lines(data, begin, opened.size)
            if start < stop or log.chunk >= _MAX_LINE_BYTES:
                break
            log.chunk *= 2
        if start >= stop:  # a piece of a very long line; or nothing, because the file was shortened
            start, stop = 0, len(data)
        times = opened.read_times(begin + start, begin + stop)
        self.remaining_bytes -= _BYTES_PER_TIME * len(times)
        log.offset = begin + (start if self.backwards else stop)
        log.chunk = max(log.chunk, min(_LARGEST_CHUNK, 2 * log.chunk))
        return data[start:stop], begin + start, times

    def _find_whole_lines(self, data: bytes, begin: int, size: int) -> tuple[int, int]:
        """Return where the whole lines of a chunk begin and end; an empty range if there are none."""
        if self.backwards:
            return (0 if begin == 0 else data.find(b"\n", 0, len(data) - 1) + 1 or len(data)), len(data)
        return 0, len(data) if begin + len(data) >= size else data.rfind(b"\n") + 1


def _get_key(item: _Item) -> _Key:
    return item[0]


class _OpenOrNone(AbstractContextManager[OpenLog | None]):
    """Opens a log; its value is None if the log was removed meanwhile."""

    def __init__(self, open_by_name: OpenByName, name: LogName) -> None:
        self._context = open_by_name(name)
        self._is_open = False

    def __enter__(self) -> OpenLog | None:
        try:
            opened = self._context.__enter__()
        except LookupError:
            return None
        self._is_open = True
        return opened

    def __exit__(self, *error: object) -> None:
        if self._is_open:
            self._context.__exit__(None, None, None)


def _is_at(opened: OpenLog, position: LogPosition) -> bool:
    """Return False if a position is not where it was, because the log was rotated."""
    if position.offset > opened.size:
        return False
    before, after = (opened.read_times(place, place + 1) for place in (position.offset - 1, position.offset))
    return (position.offset == 0 or not before or before[0][1] <= position.moment) and (
        position.offset == opened.size or not after or after[0][1] >= position.moment
    )
