"""Search for text in a log, in both directions, with secrets masked."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate

from tony.jobs.directory.open_log import LOG_PIECE, OpenLog

#: Bytes searched per request.
_MAX_SEARCH_BYTES = 64 << 20
#: Overlap of the chunks of a search. A longer text that crosses a chunk boundary is not found.
_OVERLAP = 4096
_COLOUR_SEQUENCE = re.compile(rb"\x1b\[[0-9;:]{0,32}m")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSearchResult:
    """The result of a search in a log.

    Attributes:
        line: offset of the line that contains the text; None if it was not found.
        until: offset up to which the log was searched: continue there, whether or not the text was found.
        over: the search has reached the end of the log.
    """

    line: int | None
    until: int
    over: bool


class SearchText:
    """A search text, matched without regard to ASCII case and to colour sequences in the log."""

    def __init__(self, text: str) -> None:
        self._plain = text.encode("utf-8", "surrogateescape").lower()

    def find_first(self, block: bytes) -> int:
        """Return the offset of the first match in a block; -1 if there is none."""
        plain = _PlainBlock(block)
        found = plain.data.find(self._plain)
        return found if found < 0 else plain.to_block_offset(found)

    def find_last(self, block: bytes, before: int) -> int:
        """Return the offset of the last match that starts before `before`; -1 if there is none."""
        plain = _PlainBlock(block)
        found = plain.data.rfind(self._plain, 0, plain.to_plain_offset(before) + len(self._plain) - 1)
        return found if found < 0 else plain.to_block_offset(found)


class _PlainBlock:
    """A block in lower case without colour sequences, with a mapping of its offsets to those of the block."""

    def __init__(self, block: bytes) -> None:
        cuts = [found.span() for found in _COLOUR_SEQUENCE.finditer(block)] if b"\x1b" in block else []
        self._ends = [0, *(end for _, end in cuts)]
        starts = [*(start for start, _ in cuts), len(block)]
        kept = [block[end:start] for end, start in zip(self._ends, starts, strict=True)]
        self._begins = [0, *accumulate(map(len, kept))][:-1]
        self.data = b"".join(kept).lower()

    def to_block_offset(self, at: int) -> int:
        """Return the offset in the block of a byte of `data`."""
        part = bisect_right(self._begins, at) - 1
        return self._ends[part] + at - self._begins[part]

    def to_plain_offset(self, place: int) -> int:
        """Return how many bytes of `data` precede an offset of the block."""
        part = bisect_right(self._ends, place) - 1
        following = self._begins[part + 1] if part + 1 < len(self._begins) else len(self.data)
        return min(self._begins[part] + place - self._ends[part], following)


def find_first(log: OpenLog, text: SearchText, offset: int) -> LogSearchResult:
    """Find the first matching line at or after `offset`."""
    end = min(log.size, offset + _MAX_SEARCH_BYTES)
    at = offset
    while at < end:
        block = log.read_masked(at, LOG_PIECE + _OVERLAP)
        where = text.find_first(block)
        if where >= 0:
            line = _line_start(log, at + where)
            return LogSearchResult(line=line, until=_line_end(log, at + where), over=False)
        at += LOG_PIECE
    return LogSearchResult(line=None, until=end, over=end >= log.size)


def find_last(log: OpenLog, text: SearchText, offset: int) -> LogSearchResult:
    """Find the last matching line that starts before `offset`."""
    least = max(0, offset - _MAX_SEARCH_BYTES)
    at = offset
    while at > least:
        start = max(least, at - LOG_PIECE)
        # A match that starts before `at` and ends after it counts; one that starts after it does not.
        block = log.read_masked(start, at - start + _OVERLAP)
        where = text.find_last(block, at - start)
        if where >= 0:
            line = _line_start(log, start + where)
            return LogSearchResult(line=line, until=line, over=False)
        at = start
    return LogSearchResult(line=None, until=least, over=least == 0)


def _line_start(log: OpenLog, at: int) -> int:
    start = max(0, at - LOG_PIECE)
    return start + log.read_bytes(start, at - start).rfind(b"\n") + 1


def _line_end(log: OpenLog, at: int) -> int:
    """Return the offset of the next line."""
    end = log.read_bytes(at, LOG_PIECE).find(b"\n")
    return at + end + 1 if end >= 0 else min(log.size, at + LOG_PIECE)
