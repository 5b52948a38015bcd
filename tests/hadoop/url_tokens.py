"""Tokens that programs of tests wrote as text for web addresses."""

from __future__ import annotations

from base64 import urlsafe_b64decode

from tony.hadoop.tokens import WritableReader, read_token
from tony.hadoop.wire.rpc import Token


def from_url_string(text: str) -> Token:
    """Return the token of a text that `to_url_string` or Java's `encodeToUrlString` wrote."""
    return read_token(WritableReader(urlsafe_b64decode(text.strip() + "=" * (-len(text.strip()) % 4))))
