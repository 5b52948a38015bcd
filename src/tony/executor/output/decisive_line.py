"""Finds the decisive line in the output of a failed program: the end of its last traceback."""

from __future__ import annotations

import re

#: The end of a Python traceback: a class, perhaps with its module, and its message. The output of several processes is
#: labelled (`rank_output`).
_EXCEPTION = re.compile(rb"(?:\[\d+\] )?(?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception)(?:: [^\r\n]*)?\r?(?=\n|$)")
_ENDINGS = (b"Error", b"Exception")
#: Occurrences checked, from the end, in output that is full of these words.
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
    """Return the last lines, with the decisive one put first if it is not among them; never more lines than before."""
    if not decisive or decisive in tail or len(tail) < 3:
        return tail
    return [decisive, b"...", *tail[2:]]
