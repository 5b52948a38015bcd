"""The address of an AM as text: `unix:/path/to/am.sock` or `tls:host:port`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from tony.address import Address, parse_address


@dataclass(frozen=True, slots=True, kw_only=True)
class UnixAddress:
    """A socket file on this machine, with a path of any length."""

    path: str

    def __str__(self) -> str:
        return f"unix:{self.path}"


class TlsAddress(Address):
    """A TCP port with TLS."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"tls:{super().__str__()}"


AmAddress = UnixAddress | TlsAddress
#: Maximum characters of an address that a peer reports.
_MAX_LENGTH = 300


def is_callable(text: str) -> bool:
    """Return True if the address that a peer reports can be used: TLS, with a port."""
    try:
        where = parse(text)
    except ValueError:
        return False
    return isinstance(where, TlsAddress) and where.port > 0 and len(text) <= _MAX_LENGTH and text.isprintable()


def parse(text: str) -> AmAddress:
    """Parse an address.

    Raises:
        ValueError: with the expected form.
    """
    scheme, _, rest = text.partition(":")
    if scheme == "unix" and rest.startswith("/") and "\0" not in rest and not rest.endswith("/"):
        return UnixAddress(path=rest)
    if scheme == "tls":
        with suppress(ValueError):
            where = parse_address(rest)
            return TlsAddress(host=where.host, port=where.port)
    raise ValueError(f"{text!r:.200} is not an address; write unix:/absolute/path or tls:host:port")
