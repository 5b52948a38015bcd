"""The IPv4 address by which other machines reach a host."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address

from tony.errors import UserError

#: A documentation address (RFC 5737). Nothing is sent there: the kernel only looks up the route.
_UNUSED_ADDRESS = ("192.0.2.1", 9)


def resolve_ip(host: str) -> str:
    """Return the IPv4 address by which others reach a host. Blocks on the system's resolver.

    Many systems resolve their own name to a loopback address (Debian: 127.0.1.1). Then the address of the outgoing
    route is returned; without such a route, the loopback address.

    Raises:
        UserError: the name has no IPv4 address.
    """
    try:
        found = {entry[4][0]: None for entry in socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)}
    except (OSError, UnicodeError) as error:
        raise UserError(
            f"the host {host} cannot be resolved to an IPv4 address: {error}. Check its DNS or /etc/hosts entry."
        ) from error
    addresses = [IPv4Address(address) for address in found]
    outside = [address for address in addresses if not address.is_loopback]
    if outside:
        return str(outside[0])
    return str(addresses[0]) if _is_local_name(host) else _find_outgoing_address() or str(addresses[0])


def _is_local_name(host: str) -> bool:
    try:
        return IPv4Address(host).is_loopback
    except ValueError:
        return host.rstrip(".").lower() in ("localhost", "localhost.localdomain")


def _find_outgoing_address() -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_UNUSED_ADDRESS)
            return str(probe.getsockname()[0])
        except OSError:
            return None
