"""Escapes control characters in untrusted text, which must not alter the text around it. Pure."""

from __future__ import annotations

import re

#: Maximum characters of a remote text in an error; stack traces are cut before.
MAX_CHARACTERS = 2000
#: Control characters (C0, DEL, C1), line separators, those that change the text direction, and lone surrogates.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def escape(text: str) -> str:
    """Return text on one line, with control characters escaped: `\\x1b`, `\\n`, `\\u202e`."""
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode(), text)


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
