"""TCP addresses as text: `host:port`, `[::1]:port`."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A TCP port.

    Attributes:
        host: name or number; an IPv6 number without its brackets.
        port: 0 to let the kernel choose (to listen only).
    """

    host: str
    port: int

    def __str__(self) -> str:
        return f"{format_host(self.host)}:{self.port}"


def format_host(host: str) -> str:
    """Return a host as in addresses and URLs: an IPv6 number in brackets."""
    return f"[{host}]" if ":" in host else host


def parse_address(text: str, default_port: int | None = None) -> Address:
    """Parse `host:port`, `[::1]:port`, and `host` alone if there is a default for the port.

    Raises:
        ValueError: with the expected form.
    """
    cleaned = text.strip()
    host, colon, port = cleaned.rpartition(":")
    if not colon or cleaned.endswith("]") or _is_bare_ipv6(cleaned):
        host, port = cleaned, "" if default_port is None else str(default_port)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host and not _is_bare_ipv6(cleaned):
        host = ""
    is_number = port.isascii() and port.isdigit() and len(port) <= 5 and int(port) < 2**16
    if host and is_number and host.isprintable() and not any(char in host for char in " /@[]"):
        return Address(host=host, port=int(port))
    raise ValueError(f"{text!r:.200} is not an address; write host:port")


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach a host, as far as can be told without resolving its name."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_bare_ipv6(text: str) -> bool:
    return text.count(":") > 1 and not text.startswith("[")
