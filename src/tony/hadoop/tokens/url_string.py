"""A token as text for addresses of web pages: url-safe base64 without padding, as Java's `encodeToUrlString`."""

from __future__ import annotations

from binascii import Error, a2b_base64, b2a_base64

from tony.hadoop.tokens.credentials import read_token, token_to_bytes
from tony.hadoop.tokens.token import HadoopToken
from tony.hadoop.tokens.writable import Malformed, WritableReader

#: Characters of a text that we read; a token has some hundred.
_LONGEST = 1 << 20


def to_url_string(token: HadoopToken) -> str:
    """The text for WebHDFS's `delegation=` and for YARN's REST."""
    encoded = b2a_base64(token_to_bytes(token), newline=False).decode()
    return encoded.replace("+", "-").replace("/", "_").rstrip("=")


def from_url_string(text: str) -> HadoopToken:
    """Reads it.

    Raises:
        Malformed: it is none.
    """
    plain = text.strip().rstrip("=").replace("-", "+").replace("_", "/")
    if len(plain) > _LONGEST or not plain.isascii():
        raise Malformed("this is no token: too long, or not base64")
    try:
        data = a2b_base64(plain + "=" * (-len(plain) % 4), strict_mode=True)
    except Error:
        raise Malformed("this is no token: not base64") from None
    return read_token(WritableReader(data))
