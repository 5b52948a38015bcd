"""A fake NameNode for delegation tokens and leases.

    files = FakeNameNode()
    async with FakeIpcServer() as server:
        files.serve(server)

Several servers may serve one file system, as a pair of NameNodes does.
"""

from __future__ import annotations

from tests.support.hadoop.ipc_server import FakeIpcServer, FakeRefusalError, Incoming
from tony.hadoop.hdfs import namenode_rpc as wire
from tony.hadoop.wire.rpc import Token

_EXPIRED = "org.apache.hadoop.security.token.SecretManager$InvalidToken"


class FakeNameNode:
    """The state that the NameNodes of a file system share.

    Args:
        tokens: whether delegation tokens are issued.

    Attributes:
        writers: path -> number of calls of `recoverLease` after which its writer has lost it.
        expiries: what renewals of tokens answer, one after the other: seconds since 1970; then they are refused.
        renewed, cancelled: the callers.
    """

    def __init__(self, *, tokens: bool = False) -> None:
        self.tokens = tokens
        self.writers: dict[str, int] = {}
        self.expiries: list[float] = []
        self.renewed: list[str | None] = []
        self.cancelled: list[str | None] = []

    def serve(self, server: FakeIpcServer) -> None:
        """Register the handlers with a server."""
        server.on(wire.GET_DELEGATION_TOKEN, self._token)
        server.on(wire.RENEW_DELEGATION_TOKEN, self._renew)
        server.on(wire.CANCEL_DELEGATION_TOKEN, self._cancel)
        server.on(wire.RECOVER_LEASE, self._recover_lease)

    def _recover_lease(self, request: wire.RecoverLeaseRequest, _: Incoming) -> wire.RecoverLeaseResponse:
        left = self.writers.get(request.path, 0)
        self.writers[request.path] = max(0, left - 1)
        return wire.RecoverLeaseResponse(result=not left)

    def _renew(self, _: wire.RenewDelegationTokenRequest, call: Incoming) -> wire.RenewDelegationTokenResponse:
        self.renewed.append(call.caller.user)
        if not self.expiries:
            raise FakeRefusalError(_EXPIRED, "it has reached its maximum lifetime")
        return wire.RenewDelegationTokenResponse(expiry=int(self.expiries.pop(0) * 1000))

    def _cancel(self, _: wire.CancelDelegationTokenRequest, call: Incoming) -> wire.CancelDelegationTokenResponse:
        self.cancelled.append(call.caller.user)
        return wire.CancelDelegationTokenResponse()

    def _token(self, request: wire.GetDelegationTokenRequest, call: Incoming) -> wire.GetDelegationTokenResponse:
        if not self.tokens:
            return wire.GetDelegationTokenResponse()
        identifier = f"{call.caller.user} {request.renewer}".encode()
        token = Token(identifier=identifier, password=b"secret", kind="HDFS_DELEGATION_TOKEN", service="")
        return wire.GetDelegationTokenResponse(token=token)
