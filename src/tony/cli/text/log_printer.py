"""Prints the output of tasks, each line with its task in front."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import TextIO

import click

from tony.cli.terminal.output import has_colours
from tony.cli.terminal.terminal_text import escape_line, is_terminal
from tony.jobs.log_files import LogLine

_PALETTE = ("cyan", "green", "magenta", "yellow", "blue", "bright_cyan", "bright_green", "bright_magenta")


class LogPrinter:
    """Prints lines of output.

    On a terminal control sequences other than colours are removed; elsewhere lines are copied byte for byte.

    Args:
        stream: standard output or standard error.
        prefix: put `worker:0 | ` in front of each line.
        as_json: print one JSON object per line instead.
    """

    def __init__(self, stream: TextIO, *, prefix: bool = True, as_json: bool = False) -> None:
        self._stream = stream
        self._prefix = prefix
        self._as_json = as_json
        self._coloured = has_colours(stream)
        self._terminal = is_terminal(stream)

    def print(self, lines: Sequence[LogLine], stamp: str = "") -> None:
        """Print lines and flush.

        Args:
            stamp: put in front of each line.
        """
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
        if not self._prefix:
            return ""
        head = f"{line.name.task} |"
        return f"{click.style(head, fg=_find_colour(line.name.task)) if self._coloured else head} "


def _encode_json(line: LogLine) -> bytes:
    name = line.name
    plain = {
        "task": name.task,
        "session": name.session,
        "try": name.try_,
        "stream": name.stream,
        "line": line.text,
    }
    return json.dumps(plain).encode() + b"\n"


def _find_colour(task: str) -> str:
    role, _, index = task.rpartition(":")
    return _PALETTE[(zlib.crc32(role.encode()) + int(index)) % len(_PALETTE)]
