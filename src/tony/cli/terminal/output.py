"""Output of the command line: lines for people, JSON for programs."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from typing import TextIO

import click

from tony.cli.terminal.terminal_text import is_terminal
from tony.control_characters import escape
from tony.errors import ConfigError, PlatformError, ProtocolError, RecordError, TonyError
from tony.model.codec import Json, to_plain
from tony.units import format_count


def say(text: str = "", *, to: TextIO | None = None, bold: bool = False) -> None:
    """Print a line, with control characters escaped; bold only on a terminal.

    Args:
        to: standard output by default.
    """
    stream = sys.stdout if to is None else to
    text = escape(text)
    print(click.style(text, bold=True) if bold and has_colours(stream) else text, file=stream)


def say_all(lines: Iterable[str], *, to: TextIO | None = None) -> None:
    """Print several lines, with control characters escaped."""
    text = "".join(f"{escape(line)}\n" for line in lines)
    (sys.stdout if to is None else to).write(text)


def warn(text: str) -> None:
    """Print a message on standard error."""
    say(f"tony: {text}", to=sys.stderr)


def explain(error: TonyError) -> None:
    """Print an error: all problems of a job file, or the message and whether it is a bug."""
    if isinstance(error, ConfigError):
        for problem in error.problems:
            say(str(problem), to=sys.stderr)
        count = len(error.problems)
        errors = format_count(count, "error")
        warn(f"{errors} in {error.checked_file}" if error.checked_file else f"{errors}; nothing was started")
        return
    for line in str(error).splitlines() or [type(error).__name__]:
        warn(line)
    if isinstance(error, PlatformError) and not isinstance(error, RecordError | ProtocolError):
        warn("this is a bug in tony; please report it together with the job's event log")


def print_json(value: object, *, pretty: bool = False) -> None:
    """Print a value as JSON: indented with `pretty` or on a terminal, else on one line."""
    indent = 2 if pretty or is_terminal(sys.stdout) else None
    print(json.dumps(to_plain(value), indent=indent))


def to_plain_value(text: str) -> Json:
    """Convert the TOML text of a value for JSON: `"1g"` without its quotes, `["a"]` as a list; None for empty text.

    Text that is not TOML, such as a description, is returned unchanged.
    """
    if not text:
        return None
    import tomllib  # late: importing it takes 5 ms

    try:
        value: Json = tomllib.loads(f"value = {text}")["value"]
        json.dumps(value)
    except (ValueError, TypeError):
        return text
    return value


def has_colours(stream: TextIO) -> bool:
    """Return True if a stream may be coloured."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and knows_sequences()


def has_live_view(stream: TextIO) -> bool:
    """Return True if a followed job is shown as a live table, False if as lines with the time of day."""
    return is_terminal(stream) and knows_sequences()


def format_stamp() -> str:
    """Return the time of day that each line about a followed job begins with."""
    return time.strftime("%H:%M:%S ")


def knows_sequences() -> bool:
    """Return True if TERM names a terminal with cursor movement and colours."""
    return os.environ.get("TERM", "") not in ("", "dumb")
