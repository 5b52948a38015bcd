"""The address behind a host's name."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address

from tony.errors import UserError

#: An address that nobody has (RFC 5737). Nothing is sent there: the kernel is only asked which way it would go.
_ELSEWHERE = ("192.0.2.1", 9)


def ip_of(host: str) -> str:
    """The IPv4 address by which others reach a host. Asks the system's resolver, and waits for it.

    Many systems give their own name an address that they alone can reach (Debian: 127.0.1.1). Then it is the address
    that leads out of this machine; if none does, nobody is outside.

    Raises:
        UserError: the name has no such address.
    """
    try:
        found = {entry[4][0]: None for entry in socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)}
    except (OSError, UnicodeError) as error:
        raise UserError(f"the host {host} has no IPv4 address here: {error}. See how its name is resolved.") from error
    addresses = [IPv4Address(address) for address in found]
    outside = [address for address in addresses if not address.is_loopback]
    if outside:
        return str(outside[0])
    return str(addresses[0]) if _is_plainly_local(host) else _own() or str(addresses[0])


def _is_plainly_local(host: str) -> bool:
    try:
        return IPv4Address(host).is_loopback
    except ValueError:
        return host.rstrip(".").lower() in ("localhost", "localhost.localdomain")


def _own() -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_ELSEWHERE)
            return str(probe.getsockname()[0])
        except OSError:
            return None
