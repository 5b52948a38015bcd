"""Finds the line of each key in a TOML text; `tomllib` gives only the values.

The text is scanned only when a line is needed, and only if `tomllib` has accepted it (or has found a duplicate key), so
the scan need not validate anything: it stops at anything unexpected.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from dataclasses import dataclass, field

from tony.config.table.layers import MAX_DEPTH
from tony.config.table.settings_table import Key

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_KEY_PART = re.compile(r"""[ \t]*([A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')[ \t]*""", re.ASCII)
_STRING = re.compile(
    r"""
      \"{3} (?: [^"\\] | \\. | "{1,2}(?!") )* "{3,5}   # three quotes; up to two more may end the text itself
    | \'{3} (?: [^'] | '{1,2}(?!') )* '{3,5}
    | " (?: [^"\\\n] | \\. )* "
    | ' [^'\n]* '
    """,
    re.DOTALL | re.VERBOSE,
)
_BARE_VALUE = re.compile(r"[^,\]}#\n]*")


@dataclass(slots=True)
class TomlLines:
    """The result of the scan.

    Attributes:
        lines: key -> line, counted from 1; the last part of a list item's key is its index.
        twice: the first duplicate key, with both lines.
    """

    lines: dict[Key, int] = field(default_factory=dict)
    twice: tuple[Key, int, int] | None = None

    def find_line(self, key: Key) -> int:
        """Return the line of a key, or of the nearest table around it; 1 if there is none."""
        while key and key not in self.lines:
            key = key[:-1]
        return self.lines.get(key, 1)


def scan(text: str) -> TomlLines:
    """Find the line of every key, including inline tables and list items."""
    scanner = _Scanner(text)
    try:
        scanner.document()
    except _UnexpectedTextError:
        pass
    return scanner.found


class _UnexpectedTextError(Exception):
    """The scan cannot continue."""


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text.replace("\r\n", "\n")
        self.at = 0
        self.starts = [0, *(match.end() for match in re.finditer("\n", self.text))]
        self.found = TomlLines()
        self.headers: dict[Key, int] = {}  # number of occurrences

    def document(self) -> None:
        table: Key = ()
        while True:
            self.skip(_BLANK)
            if self.at >= len(self.text):
                return
            if self.text.startswith("[", self.at):
                table = self.header()
            else:
                self.pair(table)

    def header(self) -> Key:
        start = self.at
        many = self.text.startswith("[[", start)
        self.at += 2 if many else 1
        key = self.key()
        self.expect("]]" if many else "]")
        count = self.headers.get(key, 0)
        self.headers[key] = count + 1
        if many:
            key = (*key, str(count))[: MAX_DEPTH + 1]
        self.note(key, start, once=count > 0 and not many)
        return key

    def pair(self, table: Key) -> None:
        self.skip(_SPACE)
        start = self.at
        key = (*table, *self.key())[: MAX_DEPTH + 1]
        self.expect("=")
        self.note(key, start, once=True)
        self.value(key, 0)

    def key(self) -> Key:
        parts = []
        while True:
            match = _KEY_PART.match(self.text, self.at)
            if not match:
                raise _UnexpectedTextError
            self.at = match.end()
            parts.append(_unquote(match[1]))
            if not self.text.startswith(".", self.at):
                return tuple(parts)[: MAX_DEPTH + 1]
            self.at += 1

    def value(self, key: Key, depth: int) -> None:
        self.skip(_SPACE)
        first = self.text[self.at : self.at + 1]
        if depth > MAX_DEPTH:
            raise _UnexpectedTextError
        if first == "[":
            self.array(key, depth)
        elif first == "{":
            self.inline_table(key, depth)
        else:
            match = (_STRING if first in ('"', "'") else _BARE_VALUE).match(self.text, self.at)
            if not match:
                raise _UnexpectedTextError
            self.at = match.end()

    def array(self, key: Key, depth: int) -> None:
        self.at += 1
        number = 0
        while True:
            self.skip(_BLANK)
            if self.text.startswith("]", self.at):
                self.at += 1
                return
            item = (*key, str(number))
            self.note(item, self.at, once=True)
            self.value(item, depth + 1)
            number += 1
            self.skip(_BLANK)
            if self.text.startswith(",", self.at):
                self.at += 1
            elif not self.text.startswith("]", self.at):
                raise _UnexpectedTextError

    def inline_table(self, key: Key, depth: int) -> None:
        self.at += 1
        while True:
            self.skip(_SPACE)
            if self.text.startswith("}", self.at):
                self.at += 1
                return
            start = self.at
            inner = (*key, *self.key())[: MAX_DEPTH + 1]
            self.expect("=")
            self.note(inner, start, once=True)
            self.value(inner, depth + 1)
            self.skip(_SPACE)
            if self.text.startswith(",", self.at):
                self.at += 1
            elif not self.text.startswith("}", self.at):
                raise _UnexpectedTextError

    def skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def expect(self, text: str) -> None:
        if not self.text.startswith(text, self.at):
            raise _UnexpectedTextError
        self.at += len(text)

    def note(self, key: Key, position: int, *, once: bool) -> None:
        line = bisect_right(self.starts, position)
        if once and key in self.found.lines and self.found.twice is None:
            self.found.twice = (key, self.found.lines[key], line)
        self.found.lines.setdefault(key, line)
        for length in range(1, len(key)):  # `a.b = 1` creates the table `a` as well
            self.found.lines.setdefault(key[:length], line)


def _unquote(part: str) -> str:
    if part.startswith("'"):
        return part[1:-1]
    if part.startswith('"'):
        return str(tomllib.loads(f"key = {part}")["key"])
    return part
