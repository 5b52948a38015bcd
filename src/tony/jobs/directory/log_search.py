"""Lines of a block of a log: all of them, or those that contain a text."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from itertools import accumulate

_COLOUR_SEQUENCE = re.compile(rb"\x1b\[[0-9;:]{0,32}m")


def list_lines(block: bytes, *, backwards: bool) -> Iterator[tuple[int, int]]:
    """Yield start and end, without the newline, of each line of a block, from the first or from the last one on."""
    if not backwards:
        start = 0
        while start < len(block):
            end = block.find(b"\n", start)
            end = len(block) if end < 0 else end
            yield start, end
            start = end + 1
    elif block:
        end = len(block) - block.endswith(b"\n")
        while end >= 0:
            start = block.rfind(b"\n", 0, end) + 1
            yield start, end
            end = start - 1


class SearchText:
    """A search text, matched without regard to ASCII case and to colour sequences in the log."""

    def __init__(self, text: str) -> None:
        self._plain = text.encode("utf-8", "surrogateescape").lower()

    def find_lines(self, block: bytes) -> Iterator[tuple[int, int]]:
        """Yield start and end, without the newline, of each line of a block that contains the text."""
        plain = _PlainBlock(block)
        found = plain.data.find(self._plain)
        while found >= 0:
            at = plain.to_block_offset(found)
            start = block.rfind(b"\n", 0, at) + 1
            end = block.find(b"\n", at)
            end = len(block) if end < 0 else end
            yield start, end
            found = plain.data.find(self._plain, plain.to_plain_offset(end)) if end < len(block) else -1

    def find_last_lines(self, block: bytes, most: int) -> Iterator[tuple[int, int]]:
        """Yield the same of the last lines that contain the text, the last one first."""
        return reversed(deque(self.find_lines(block), most))


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
