"""Prints the output of tasks, each line with its task in front."""

from __future__ import annotations

import json
import re
import time
import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import TextIO

import click

from tony.cli.terminal.output import has_colours
from tony.cli.terminal.terminal_text import drop_colours, escape_line, is_terminal
from tony.jobs.log_lines import LogLine

_TIMESTAMP_CHARACTERS = len("2026-01-31 18:00:00.25")
_PALETTE = ("cyan", "green", "magenta", "yellow", "blue", "bright_cyan", "bright_green", "bright_magenta")


class LogPrinter:
    """Prints lines of output.

    On a terminal control sequences other than colours are removed; elsewhere lines are copied byte for byte.

    Args:
        stream: standard output or standard error.
        prefix: put `worker:0 | ` in front of each line.
        as_json: print one JSON object per line instead.
        timestamps: put the time in front of each line.
        pattern: print only lines that it matches; colours in the output are ignored.

    Attributes:
        printed_count: number of lines printed.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        prefix: bool = True,
        as_json: bool = False,
        timestamps: bool = False,
        pattern: re.Pattern[str] | None = None,
    ) -> None:
        self.printed_count = 0
        self._stream = stream
        self._prefix = prefix
        self._as_json = as_json
        self._timestamps = timestamps
        self._pattern = pattern
        self._coloured = has_colours(stream)
        self._terminal = is_terminal(stream)

    def print(self, lines: Sequence[LogLine], stamp: str = "") -> None:
        """Print lines and flush.

        Args:
            stamp: put in front of each line.
        """
        if self._pattern is not None:
            lines = [line for line in lines if self._pattern.search(drop_colours(line.text))]
        self.printed_count += len(lines)
        self._stream.flush()
        binary = self._stream.buffer
        binary.write(b"".join(self._encode(line, stamp) for line in lines))
        binary.flush()

    def format_line(self, line: LogLine, stamp: str = "") -> str:
        """Return a line that is safe for a terminal."""
        return f"{stamp}{self._format_head(line)}{escape_line(line.text)}"

    def _encode(self, line: LogLine, stamp: str) -> bytes:
        if self._as_json:
            return _encode_json(line)
        if self._terminal:
            return f"{self.format_line(line, stamp)}\n".encode("utf-8", errors="replace")
        return f"{stamp}{self._format_head(line)}".encode() + line.data + b"\n"

    def _format_head(self, line: LogLine) -> str:
        stamp = f"{format_timestamp(line.at)} " if self._timestamps else ""
        if not self._prefix:
            return stamp
        head = f"{line.name.task} |"
        return f"{stamp}{click.style(head, fg=_find_colour(line.name.task)) if self._coloured else head} "


def _encode_json(line: LogLine) -> bytes:
    name = line.name
    plain = {
        "task": name.task,
        "session": name.session,
        "try": name.try_,
        "stream": name.stream,
        "time": line.at,
        "line": line.text,
    }
    return json.dumps(plain).encode() + b"\n"


def format_timestamp(seconds: float | None) -> str:
    """Return a time in the local time zone: `2026-01-31 18:00:00.25`; a hyphen, as wide, if it is unknown."""
    if seconds is None:
        return "-".ljust(_TIMESTAMP_CHARACTERS)
    whole, hundredths = divmod(round(seconds * 100), 100)
    return f"{_format_second(whole)}.{hundredths:02d}"


@lru_cache(maxsize=64)
def _format_second(seconds: int) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):  # out of range, in a damaged job directory
        return "?".ljust(_TIMESTAMP_CHARACTERS - 3)


def _find_colour(task: str) -> str:
    role, _, index = task.rpartition(":")
    return _PALETTE[(zlib.crc32(role.encode()) + int(index)) % len(_PALETTE)]
