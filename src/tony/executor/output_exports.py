"""What a program hands on: the rest of the last line of its output that holds a certain text.

Looked for in pieces as they are read, at the speed of a search in memory, and only for those who asked for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from tony.protocol.messages import LONGEST_EXPORT

#: Bytes at the beginning of a line that are looked at: a text may stand anywhere in them. Whoever prints a gigabyte
#: without a line's end shall not fill our memory.
LONGEST_LINE = 2 * LONGEST_EXPORT
#: What all values of a program may take in a message together, which has room for twice as much.
_ALL = 512 << 10
#: As in `output_capture`: progress bars end their lines with a carriage return.
_LINE_END = re.compile(rb"[\r\n]")


class Exports:
    """The values of one try, from both of its streams; what was printed last counts.

    Args:
        wanted: variable -> text.
    """

    def __init__(self, wanted: Mapping[str, str]) -> None:
        self._marks = {name: text.encode() for name, text in wanted.items()}
        self._found: dict[str, bytes] = {}
        self._readers: list[ExportReader] = []

    def reader(self) -> ExportReader:
        """Looks for them in one further stream."""
        reader = ExportReader(self._marks, self._found)
        self._readers.append(reader)
        return reader

    def values(self) -> dict[str, str | None]:
        """Variable -> value, None where no line held the text. To be called when nothing more is printed."""
        for reader in self._readers:
            reader.finish()
        values: dict[str, str | None] = {}
        room = _ALL
        for name in self._marks:
            value = _text(self._found[name]) if name in self._found else None
            room -= 0 if value is None else len(json.dumps(value, ensure_ascii=False).encode())
            values[name] = value if room >= 0 else None
        return values


class ExportReader:
    """One stream, in pieces of any size."""

    def __init__(self, marks: Mapping[str, bytes], found: dict[str, bytes]) -> None:
        self._marks = marks
        self._found = found
        self._begun = bytearray()  # of the line whose end has not come yet, as much as is looked at

    def feed(self, data: bytes) -> None:
        """Takes a piece."""
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if end:
            self._look(bytes(self._begun) + data[:end] if self._begun else data[:end])
            self._begun.clear()
        room = LONGEST_LINE - len(self._begun)
        if room > 0:
            self._begun += data[end : end + room]

    def finish(self) -> None:
        """The stream is over: what has no line end is a line as well."""
        self._look(bytes(self._begun))
        self._begun.clear()

    def _look(self, lines: bytes) -> None:
        for name, mark in self._marks.items():
            rest = _rest(lines, mark)
            if rest is not None:
                self._found[name] = rest[:LONGEST_EXPORT]


def _rest(lines: bytes, mark: bytes) -> bytes | None:
    """What follows a text in the last of some lines that holds it."""
    place = lines.rfind(mark)
    while place >= 0:
        begin = max(lines.rfind(b"\n", 0, place), lines.rfind(b"\r", 0, place)) + 1
        ended = _LINE_END.search(lines, place)
        line = lines[begin : min(ended.start() if ended else len(lines), begin + LONGEST_LINE)]
        first = line.find(mark)
        if first >= 0:
            return line[first + len(mark) :].strip()
        place = lines.rfind(mark, 0, begin)
    return None


def _text(value: bytes) -> str:
    """As a variable can hold it: a NUL would end it, and half a character at the cut is none."""
    cut = value if len(value) < LONGEST_EXPORT else value.decode(errors="ignore").encode()
    return cut.decode(errors="replace").replace("\0", "").strip()
