"""The line of a program's output that says why it failed: `ValueError: ...` at the beginning of a line. Pure."""

from __future__ import annotations

import re

#: As Python ends a traceback: a class, perhaps with its module, and what it says. Where a task has several processes, a
#: label stands in front of the line (`rank_output`).
_EXCEPTION = re.compile(rb"(?:\[\d+\] )?(?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception)(?:: [^\r\n]*)?\r?(?=\n|$)")
_ENDINGS = (b"Error", b"Exception")
#: Places that are looked at from the end, for output that is full of these words.
_MAX_PLACES = 200


def find_decisive_line(data: bytes) -> bytes:
    """Return the last line that looks like the end of a traceback; empty if there is none."""
    places = {word: data.rfind(word) for word in _ENDINGS}
    for _ in range(_MAX_PLACES):
        place = max(places.values(), default=-1)
        if place < 0:
            return b""
        start = data.rfind(b"\n", 0, place) + 1
        found = _EXCEPTION.match(data, start)
        if found:
            return found[0].rstrip(b"\r")
        places = {word: data.rfind(word, 0, start) if at >= start else at for word, at in places.items()}
    return b""


def with_decisive_line(tail: list[bytes], decisive: bytes) -> list[bytes]:
    """Return the last lines with the decisive one in front if it is not among them; never more lines than before."""
    if not decisive or decisive in tail or len(tail) < 3:
        return tail
    return [decisive, b"...", *tail[2:]]
