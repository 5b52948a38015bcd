"""The address of an AM as text: `unix:/path/to/am.sock` or `tls:host:port`."""

from __future__ import annotations

from tony.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class UnixAddress:
    """A socket file on this machine, with a path of any length."""

    path: str

    def __str__(self) -> str:
        return f"unix:{self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsAddress:
    """A TCP port with TLS.

    Attributes:
        host: name or number; an IPv6 number without its brackets.
        port: 0 to let the kernel choose (to listen only).
    """

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"tls:{host}:{self.port}"


Address = UnixAddress | TlsAddress
#: Maximum characters of an address that a peer reports.
_MAX_LENGTH = 300


def is_callable(text: str) -> bool:
    """Return True if the address that a peer reports can be used: TLS, with a port."""
    try:
        where = parse(text)
    except ValueError:
        return False
    return isinstance(where, TlsAddress) and where.port > 0 and len(text) <= _MAX_LENGTH and text.isprintable()


def parse(text: str) -> Address:
    """Parse an address.

    Raises:
        ValueError: with the expected form.
    """
    scheme, colon, rest = text.partition(":")
    if scheme == "unix" and rest.startswith("/") and "\0" not in rest and not rest.endswith("/"):
        return UnixAddress(path=rest)
    if scheme == "tls" and colon:
        host, colon, port = rest.rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            host = ""
        if host and port.isascii() and port.isdigit() and len(port) <= 5 and int(port) < 2**16:
            return TlsAddress(host=host, port=int(port))
    raise ValueError(f"{text!r:.200} is not an address; write unix:/absolute/path or tls:host:port")
