"""Which token fits which daemon, and what its service is called.

Services are `ip:port` (or `host:port` where `hadoop.security.token.service.use_ip` is false), `ha-hdfs:<nameservice>`
for a pair of NameNodes, and a comma list of all of them for ResourceManagers. The AM's own token has none.
"""

from __future__ import annotations

import socket

from tony.address import Address
from tony.hadoop.tokens.credentials import TokenCredentials
from tony.hadoop.tokens.token import HadoopToken

#: The application master's, for the ResourceManager's scheduler.
AM_RM = "YARN_AM_RM_TOKEN"
#: The application master's, for one NodeManager.
NODE_MANAGER = "NMToken"
#: Inside a container that was granted; no login is made with it.
CONTAINER = "ContainerToken"
#: A user's, for the ResourceManager.
RM_DELEGATION = "RM_DELEGATION_TOKEN"
#: A user's, for HDFS.
HDFS_DELEGATION = "HDFS_DELEGATION_TOKEN"
#: A user's, for the application master.
CLIENT_TO_AM = "YARN_CLIENT_TOKEN"

_HA_HDFS = "ha-hdfs:"


def find_service(address: Address, *, use_ip: bool = True) -> str:
    """Return the service of a token for one daemon. With `use_ip` it may ask the DNS, and so block.

    Args:
        use_ip: `hadoop.security.token.service.use_ip`.
    """
    host = address.host.lower()
    if use_ip:
        try:
            found = socket.getaddrinfo(host, address.port, type=socket.SOCK_STREAM)
            host = str(found[0][4][0])
        except OSError:
            pass  # Java, too, takes the name then
    return f"{host}:{address.port}"


def select(credentials: TokenCredentials, kind: str, service: str | None = None) -> HadoopToken | None:
    """Return the token of a kind for a service, as Java's selectors choose it.

    For ResourceManagers the service is one of the list in the token; for all others it is the token's, exactly; the
    application master's has none, and fits.

    Args:
        service: of the daemon; None where any will do.
    """
    found = credentials.tokens_by_kind(kind)
    if service is None:
        return found[0] if found else None
    exact = next((token for token in found if token.service == service), None)
    if exact is not None:
        return exact
    if kind in (AM_RM, RM_DELEGATION):
        return next((token for token in found if not token.service or service in _list_services(token)), None)
    return None


def _list_services(token: HadoopToken) -> tuple[str, ...]:
    return tuple(part.strip() for part in token.service.split(","))
