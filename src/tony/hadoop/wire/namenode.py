"""ClientProtocol of the NameNode, limited to delegation tokens and leases: the rest goes over WebHDFS."""

from __future__ import annotations

from typing import Final

from tony.hadoop.wire.proto import BOOL, STRING, ProtoMessage, required
from tony.hadoop.wire.rpc import (
    GetDelegationTokenRequest,
    GetDelegationTokenResponse,
)
from tony.hadoop.wire.rpc_method import Method

PROTOCOL: Final = "org.apache.hadoop.hdfs.protocol.ClientProtocol"


class RecoverLeaseRequest(ProtoMessage):
    """The file whose lease to recover."""

    path: str = required(1, STRING)
    client_name: str = required(2, STRING)


class RecoverLeaseResponse(ProtoMessage):
    """True once the file is closed."""

    result: bool = required(1, BOOL)


GET_DELEGATION_TOKEN: Final = Method(
    protocol=PROTOCOL,
    name="getDelegationToken",
    request=GetDelegationTokenRequest,
    response=GetDelegationTokenResponse,
    idempotent=True,
)
RECOVER_LEASE: Final = Method(
    protocol=PROTOCOL,
    name="recoverLease",
    request=RecoverLeaseRequest,
    response=RecoverLeaseResponse,
    idempotent=True,
)
