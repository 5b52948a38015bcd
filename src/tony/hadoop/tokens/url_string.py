"""A token as text for addresses of web pages: url-safe base64 without padding, as Java's `encodeToUrlString`."""

from __future__ import annotations

from binascii import b2a_base64

from tony.hadoop.tokens.credentials import encode_token
from tony.hadoop.tokens.token import HadoopToken


def to_url_string(token: HadoopToken) -> str:
    """Return the text for WebHDFS's `delegation=` and for YARN's REST."""
    encoded = b2a_base64(encode_token(token), newline=False).decode()
    return encoded.replace("+", "-").replace("/", "_").rstrip("=")
