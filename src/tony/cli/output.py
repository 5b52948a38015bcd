"""Where the command line writes: lines for people, JSON for programs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from typing import TextIO

import click

from tony.cli.terminal_text import is_terminal, safe
from tony.errors import ConfigError, PlatformError, ProtocolError, RecordError, TonyError
from tony.model.codec import Json, to_plain


def say(text: str = "", *, to: TextIO | None = None, **style: object) -> None:
    """Prints a line, with other people's control characters made harmless.

    Args:
        to: standard output by default.
        style: as of `click.style`; shows on a terminal only.
    """
    stream = sys.stdout if to is None else to
    text = safe(text)
    if style and colours(stream):
        text = click.style(text, **style)  # type: ignore[arg-type]
    print(text, file=stream)


def say_all(lines: Iterable[str], *, to: TextIO | None = None) -> None:
    """Prints several lines."""
    text = "".join(f"{safe(line)}\n" for line in lines)
    (sys.stdout if to is None else to).write(text)


def warn(text: str) -> None:
    """Tells the person something that is no part of the answer."""
    say(f"tony: {text}", to=sys.stderr)


def explain(error: TonyError) -> None:
    """Tells the person what is wrong, and what is to be done."""
    if isinstance(error, ConfigError):
        for problem in error.problems:
            say(str(problem), to=sys.stderr)
        count = len(error.problems)
        errors = f"{count} error{'s' if count != 1 else ''}"
        warn(f"{errors} in {error.checked_file}." if error.checked_file else f"{errors}; nothing was started.")
        return
    for line in str(error).splitlines() or [type(error).__name__]:
        warn(line)
    if isinstance(error, PlatformError) and not isinstance(error, RecordError | ProtocolError):
        warn("this is a bug of ours; please report it together with the job's event log.")


def print_json(value: object, *, pretty: bool = False) -> None:
    """Prints a value as JSON: indented for a person (`pretty`, or a terminal), on one line for a program."""
    indent = 2 if pretty or is_terminal(sys.stdout) else None
    print(json.dumps(to_plain(value), indent=indent))


def plain_value(text: str) -> Json:
    """A value as a job file has it, as JSON has it: `"1g"` without its quotes, `["a"]` as a list; None for nothing.

    Text that is no such value, such as words in its place, stays what it is.
    """
    if not text:
        return None
    import tomllib  # for this alone: it costs every command 5 ms

    try:
        value: Json = tomllib.loads(f"value = {text}")["value"]
        json.dumps(value)
    except (ValueError, TypeError):
        return text
    return value


def colours(stream: TextIO) -> bool:
    """Whether colours make sense on a stream."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and knows_sequences()


def knows_sequences() -> bool:
    """Whether the terminal is said to be one that moves its cursor and has colours."""
    return os.environ.get("TERM", "") not in ("", "dumb")
