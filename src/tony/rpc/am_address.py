"""Where an application master listens, as text: `unix:/path/to/am.sock` or `tls:host:port`."""

from __future__ import annotations

from tony.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class UnixAddress:
    """A socket file on this machine, of any path length."""

    path: str

    def __str__(self) -> str:
        return f"unix:{self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsAddress:
    """A TCP port that speaks TLS.

    Attributes:
        host: name or number; an IPv6 number without its brackets.
        port: 0 where the kernel shall choose (to listen only).
    """

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"tls:{host}:{self.port}"


Address = UnixAddress | TlsAddress
#: Characters of an address that a peer names.
_LONGEST = 300


def is_callable(text: str) -> bool:
    """Whether a peer's word for where it listens can be used, and kept: a port that speaks TLS, and nothing else."""
    try:
        where = parse(text)
    except ValueError:
        return False
    return isinstance(where, TlsAddress) and where.port > 0 and len(text) <= _LONGEST and text.isprintable()


def parse(text: str) -> Address:
    """Reads an address.

    Raises:
        ValueError: says what an address looks like.
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
    raise ValueError(f"{text!r:.200} is no address; write unix:/absolute/path or tls:host:port")
