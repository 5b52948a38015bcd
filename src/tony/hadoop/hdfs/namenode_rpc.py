"""The NameNode over RPC, for what WebHDFS lacks: delegation tokens with a Kerberos ticket alone, and leases.

Paths are absolute and belong to one file system, without `hdfs://`.
"""

from __future__ import annotations

from collections.abc import Callable

from tony.hadoop.authentication import Logins
from tony.hadoop.configuration.service_addresses import NameService
from tony.hadoop.configuration.settings import HadoopConfiguration
from tony.hadoop.failover import FailoverProxy, Policy, build_connection_options
from tony.hadoop.tokens.credentials import from_message
from tony.hadoop.tokens.token import HadoopToken
from tony.hadoop.wire import namenode as wire
from tony.hadoop.wire.rpc import GetDelegationTokenRequest


class NameNode:
    """ClientProtocol, through a proxy of the NameNodes of one file system.

    Args:
        proxy: proxy of the NameNodes.
        token_service: service name in delegation tokens of this file system, or a function that returns it.
    """

    def __init__(self, proxy: FailoverProxy, *, token_service: str | Callable[[], str] = "") -> None:
        self._proxy = proxy
        self._token_service = token_service

    async def close(self) -> None:
        """Close the connections."""
        await self._proxy.close()

    async def __aenter__(self) -> NameNode:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def recover_lease(self, path: str) -> bool:
        """Recover the lease of a file from its live or dead writer, and close it; return True once it is closed.

        That needs the DataNodes and so some seconds: call it again until it is True.

        Raises:
            FileMissingError: there is no such file.
        """
        request = wire.RecoverLeaseRequest(path=_check_path(path), client_name="recovery")
        return (await self._proxy.call(wire.RECOVER_LEASE, request)).result

    async def get_delegation_token(self, renewer: str) -> HadoopToken | None:
        """Get a delegation token, with which programs without a Kerberos ticket can use the file system.

        Args:
            renewer: principal that may renew it; for jobs that of the ResourceManager.

        Returns:
            None if this cluster gives none out: it wants no proofs.
        """
        answer = await self._proxy.call(wire.GET_DELEGATION_TOKEN, GetDelegationTokenRequest(renewer=renewer))
        if answer.token is None or not answer.token.identifier:
            return None
        service = self._token_service
        return from_message(answer.token, service=(service if isinstance(service, str) else service()) or None)


def _check_path(path: str) -> str:
    if not path.startswith("/"):
        raise ValueError(f"{path!r:.200} is not an absolute path of the file system")
    return path


def create_name_node(
    settings: HadoopConfiguration, logins: Logins, service: NameService, *, policy: Policy
) -> NameNode:
    """Return a client of a file system's NameNodes; it connects with its first call.

    Args:
        policy: how long to look for one that answers.
    """
    proxy = FailoverProxy(
        name=f"NameNode of {service.uri}",
        daemons=service.name_nodes,
        login=logins.login_for_name_node(service),
        protocol=wire.PROTOCOL,
        policy=policy,
        options=build_connection_options(settings),
    )
    return NameNode(proxy, token_service=lambda: logins.find_file_service(service))
