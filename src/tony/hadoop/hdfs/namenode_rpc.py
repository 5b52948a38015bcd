"""The NameNode over RPC, for what WebHDFS lacks: delegation tokens with a Kerberos ticket alone, and leases.

Paths are absolute and belong to one file system, without `hdfs://`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tony.hadoop.authentication import Logins
from tony.hadoop.configuration.service_addresses import NameService
from tony.hadoop.configuration.settings import HadoopConfiguration
from tony.hadoop.failover import FailoverProxy, Policy, build_connection_options
from tony.hadoop.wire.proto import BOOL, STRING, UINT64, ProtoMessage, optional, replace, required
from tony.hadoop.wire.rpc import Method, Token

PROTOCOL: Final = "org.apache.hadoop.hdfs.protocol.ClientProtocol"


class GetDelegationTokenRequest(ProtoMessage):
    """The principal that may renew the token."""

    renewer: str = required(1, STRING)


class GetDelegationTokenResponse(ProtoMessage):
    """The new token; absent if the server is not secure."""

    token: Token | None = optional(1, Token)


class RenewDelegationTokenRequest(ProtoMessage):
    """The token to renew."""

    token: Token = required(1, Token)


class RenewDelegationTokenResponse(ProtoMessage):
    """When it expires now, milliseconds since 1970."""

    expiry: int = required(1, UINT64)


class CancelDelegationTokenRequest(ProtoMessage):
    """The token to cancel."""

    token: Token = required(1, Token)


class CancelDelegationTokenResponse(ProtoMessage):
    """Empty."""


class RecoverLeaseRequest(ProtoMessage):
    """The file whose lease to recover."""

    path: str = required(1, STRING)
    client_name: str = required(2, STRING)


class RecoverLeaseResponse(ProtoMessage):
    """True once the file is closed."""

    result: bool = required(1, BOOL)


GET_DELEGATION_TOKEN: Final = Method(
    PROTOCOL, "getDelegationToken", GetDelegationTokenRequest, GetDelegationTokenResponse, idempotent=True
)
RENEW_DELEGATION_TOKEN: Final = Method(
    PROTOCOL, "renewDelegationToken", RenewDelegationTokenRequest, RenewDelegationTokenResponse, idempotent=True
)
CANCEL_DELEGATION_TOKEN: Final = Method(
    PROTOCOL, "cancelDelegationToken", CancelDelegationTokenRequest, CancelDelegationTokenResponse
)
RECOVER_LEASE: Final = Method(PROTOCOL, "recoverLease", RecoverLeaseRequest, RecoverLeaseResponse, idempotent=True)


class NameNode:
    """ClientProtocol, through a proxy of the NameNodes of one file system.

    Args:
        proxy: proxy of the NameNodes.
        token_service: returns the service name in delegation tokens of this file system, which HDFS leaves empty.
    """

    def __init__(self, proxy: FailoverProxy, *, token_service: Callable[[], str] = str) -> None:
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
        if not path.startswith("/"):
            raise ValueError(f"{path!r:.200} is not an absolute path of the file system")
        request = RecoverLeaseRequest(path=path, client_name="recovery")
        return (await self._proxy.call(RECOVER_LEASE, request)).result

    async def get_delegation_token(self, renewer: str) -> Token | None:
        """Get a delegation token, with which programs without a Kerberos ticket can use the file system.

        Args:
            renewer: principal that may renew it; for jobs that of the ResourceManager.

        Returns:
            None if the cluster issues none, as it requires no authentication.
        """
        answer = await self._proxy.call(GET_DELEGATION_TOKEN, GetDelegationTokenRequest(renewer=renewer))
        if answer.token is None or not answer.token.identifier:
            return None
        service = self._token_service()
        return replace(answer.token, service=service) if service else answer.token

    async def renew_delegation_token(self, token: Token) -> float:
        """Renew a token; return when it expires then, seconds since 1970 by the NameNode's clock.

        The caller must be the token's renewer, and be authenticated by Kerberos: a token is not enough on a secure
        cluster. A token that has expired can be renewed until the NameNode forgets it, within an hour.

        Raises:
            AccessControlError: the caller is another one.
            InvalidTokenError: the token has reached its maximum lifetime, or was cancelled.
        """
        answer = await self._proxy.call(RENEW_DELEGATION_TOKEN, RenewDelegationTokenRequest(token=token))
        return answer.expiry / 1000

    async def cancel_delegation_token(self, token: Token) -> None:
        """Cancel a token. Its owner or renewer may do that, also with a token.

        Raises:
            InvalidTokenError: it is unknown.
        """
        await self._proxy.call(CANCEL_DELEGATION_TOKEN, CancelDelegationTokenRequest(token=token))


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
        protocol=PROTOCOL,
        policy=policy,
        options=build_connection_options(settings),
    )
    return NameNode(proxy, token_service=lambda: logins.find_file_service(service))
