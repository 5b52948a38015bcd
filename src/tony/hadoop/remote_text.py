"""Makes remote text safe for messages: short, without terminal control sequences."""

from __future__ import annotations

#: Maximum characters of a remote text in an error; stack traces are cut before.
MAX_CHARACTERS = 2000


def escape_text(text: str, most: int = MAX_CHARACTERS) -> str:
    """Remote text as one may print it: bounded, without control characters; line ends stay."""
    short = text if len(text) <= most else f"{text[:most]}..."
    if short.isprintable():
        return short
    return "".join(char if char.isprintable() or char == "\n" else _escape_character(char) for char in short)


def escape_line(text: str, most: int = 300) -> str:
    """Remote text as a part of a sentence: bounded, printable, on one line."""
    return escape_text(" ".join(text[: 4 * most].split()), most)


def _escape_character(char: str) -> str:
    return " " if char == "\t" else char.encode("unicode_escape", "replace").decode("ascii")
