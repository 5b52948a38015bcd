"""Exported values of a program: the rest of the last line of its output that contains a given text.

Searched in the chunks as they are read, at the speed of a memory search, and only for tasks with exports.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from tony.protocol.executor_messages import MAX_EXPORT_BYTES

#: Bytes at the beginning of a line that are searched; the text may be anywhere in them. Bounds the memory for a program
#: that prints gigabytes without a line end.
MAX_LINE_BYTES = 2 * MAX_EXPORT_BYTES
#: Bytes that all values of a program may take in a message together, which has room for twice as much.
_MAX_TOTAL_BYTES = 512 << 10
#: As in `output_capture`: progress bars end their lines with a carriage return.
_LINE_END = re.compile(rb"[\r\n]")


class Exports:
    """The values of one task attempt, from both of its streams; the last one printed counts.

    Args:
        texts: variable -> text.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._patterns = {name: text.encode() for name, text in texts.items()}
        self._found: dict[str, bytes] = {}
        self._readers: list[ExportReader] = []

    def create_reader(self) -> ExportReader:
        """Return a reader for one more stream."""
        reader = ExportReader(self._patterns, self._found)
        self._readers.append(reader)
        return reader

    def collect_values(self) -> dict[str, str | None]:
        """Return variable -> value, None where no line contained the text. Call it after all output has been read."""
        for reader in self._readers:
            reader.finish()
        values: dict[str, str | None] = {}
        spare_bytes = _MAX_TOTAL_BYTES
        for name in self._patterns:
            value = _clean_text(self._found[name]) if name in self._found else None
            spare_bytes -= 0 if value is None else len(json.dumps(value, ensure_ascii=False).encode())
            values[name] = value if spare_bytes >= 0 else None
        return values


class ExportReader:
    """Searches one stream, in chunks of any size."""

    def __init__(self, patterns: Mapping[str, bytes], found: dict[str, bytes]) -> None:
        self._patterns = patterns
        self._found = found
        self._partial = bytearray()  # the unfinished line, as far as it is searched

    def feed(self, data: bytes) -> None:
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if end:
            self._search(bytes(self._partial) + data[:end] if self._partial else data[:end])
            self._partial.clear()
        spare_bytes = MAX_LINE_BYTES - len(self._partial)
        if spare_bytes > 0:
            self._partial += data[end : end + spare_bytes]

    def finish(self) -> None:
        """Search the last line, which may have no line end."""
        self._search(bytes(self._partial))
        self._partial.clear()

    def _search(self, lines: bytes) -> None:
        for name, pattern in self._patterns.items():
            rest = _find_rest(lines, pattern)
            if rest is not None:
                self._found[name] = rest[:MAX_EXPORT_BYTES]


def _find_rest(lines: bytes, pattern: bytes) -> bytes | None:
    """Return what follows the text in the last line that contains it; None if no line does."""
    place = lines.rfind(pattern)
    while place >= 0:
        begin = max(lines.rfind(b"\n", 0, place), lines.rfind(b"\r", 0, place)) + 1
        ended = _LINE_END.search(lines, place)
        line = lines[begin : min(ended.start() if ended else len(lines), begin + MAX_LINE_BYTES)]
        first = line.find(pattern)
        if first >= 0:
            return line[first + len(pattern) :].strip()
        place = lines.rfind(pattern, 0, begin)
    return None


def _clean_text(value: bytes) -> str:
    """Return a value as a variable can hold it: without NUL, and without half a character where it was cut."""
    cut = value if len(value) < MAX_EXPORT_BYTES else value.decode(errors="ignore").encode()
    return cut.decode(errors="replace").replace("\0", "").strip()
