"""Escapes control characters in untrusted text, which must not alter the text around it. Pure."""

from __future__ import annotations

import re

#: Control characters (C0, DEL, C1), line separators, those that change the text direction, and lone surrogates.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def escape(text: str) -> str:
    """Return text on one line, with control characters escaped: `\\x1b`, `\\n`, `\\u202e`."""
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode(), text)
