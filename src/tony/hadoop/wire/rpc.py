"""Methods, and the messages around every call (package `hadoop.common`), IPC version 9.

Facts: hadoop-common's RpcHeader.proto, IpcConnectionContext.proto, ProtobufRpcEngine2.proto, Security.proto.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Generic, TypeVar

from tony.hadoop.wire.proto import (
    BYTES,
    ENUM,
    SINT32,
    STRING,
    UINT32,
    UINT64,
    ProtoMessage,
    optional,
    repeated,
    required,
)

Request = TypeVar("Request", bound=ProtoMessage)
Response = TypeVar("Response", bound=ProtoMessage)

#: Call ids of frames that are not calls.
AUTHORIZATION_FAILED_CALL_ID: Final = -1
CONNECTION_CONTEXT_CALL_ID: Final = -3
PING_CALL_ID: Final = -4
SASL_CALL_ID: Final = -33
#: The retry count of frames that are not calls.
NO_RETRY: Final = -1


class RpcKind(IntEnum):
    """The serialization of requests; this client sends protobufs."""

    BUILTIN = 0
    WRITABLE = 1
    PROTOCOL_BUFFER = 2


class RpcOperation(IntEnum):
    """The kind of a packet; this client sends complete calls."""

    FINAL_PACKET = 0
    CONTINUATION_PACKET = 1
    CLOSE_CONNECTION = 2


class RpcStatus(IntEnum):
    """The outcome of a call. After FATAL the server closes the connection."""

    SUCCESS = 0
    ERROR = 1
    FATAL = 2


class SaslState(IntEnum):
    """The step of an authentication."""

    SUCCESS = 0
    NEGOTIATE = 1
    INITIATE = 2
    CHALLENGE = 3
    RESPONSE = 4
    WRAP = 5


class RpcRequestHeader(ProtoMessage):
    """The first message of each packet from the client. The server requires `kind` and `operation` anyway."""

    rpc_kind: RpcKind | None = optional(1, ENUM(RpcKind))
    rpc_op: RpcOperation | None = optional(2, ENUM(RpcOperation))
    call_id: int = required(3, SINT32)
    client_id: bytes = required(4, BYTES)
    retry_count: int = optional(5, SINT32, NO_RETRY)


class RequestHeader(ProtoMessage):
    """The second message of a call: method and protocol."""

    method_name: str = required(1, STRING)
    protocol: str = required(2, STRING)
    protocol_version: int = required(3, UINT64)


class UserInformation(ProtoMessage):
    """The effective user of the calls, and the real user if it differs (impersonation)."""

    effective_user: str | None = optional(1, STRING)
    real_user: str | None = optional(2, STRING)


class IpcConnectionContext(ProtoMessage):
    """Sent once, after the authentication and before the first call."""

    user: UserInformation | None = optional(2, UserInformation)
    protocol: str | None = optional(3, STRING)


class RpcResponseHeader(ProtoMessage):
    """The first message of each packet from the server."""

    unsigned_call_id: int = required(1, UINT32)
    status: RpcStatus = required(2, ENUM(RpcStatus))
    exception_class: str | None = optional(4, STRING)
    error_message: str | None = optional(5, STRING)

    @property
    def call_id(self) -> int:
        """Return the id as the request had it: requests carry signed ids, responses the same bits unsigned."""
        return self.unsigned_call_id - (1 << 32) if self.unsigned_call_id >> 31 else self.unsigned_call_id


class SaslAuth(ProtoMessage):
    """One way to authenticate. The client's choice must equal the server's offer except for the challenge."""

    method: str = required(1, STRING)
    mechanism: str = required(2, STRING)
    protocol: str | None = optional(3, STRING)
    server_id: str | None = optional(4, STRING)
    challenge: bytes | None = optional(5, BYTES)


class RpcSasl(ProtoMessage):
    """A step of an authentication, or wrapped traffic after it."""

    state: SaslState = required(2, ENUM(SaslState))
    token: bytes | None = optional(3, BYTES)
    auths: tuple[SaslAuth, ...] = repeated(4, SaslAuth)


class Token(ProtoMessage):
    """A token that a daemon issued for authentication to it (`TokenProto`).

    Attributes:
        identifier: user, permissions and expiry, in the issuer's own format.
        password: the maker's signature under the identifier. Secret; of any length.
        kind: `HDFS_DELEGATION_TOKEN`, `YARN_AM_RM_TOKEN`, `NMToken`...
        service: for which daemon: `ip:port`, `ha-hdfs:nameservice`, a comma list, or empty.
    """

    identifier: bytes = required(1, BYTES)
    password: bytes = required(2, BYTES)
    kind: str = required(3, STRING)
    service: str = required(4, STRING)


class CredentialsEntry(ProtoMessage):
    """A token or a secret under its alias (`CredentialsKVProto`)."""

    alias: str = required(1, STRING)
    token: Token | None = optional(2, Token)
    secret: bytes | None = optional(3, BYTES)


class Credentials(ProtoMessage):
    """A token file of format 1 (`CredentialsProto`)."""

    tokens: tuple[CredentialsEntry, ...] = repeated(1, CredentialsEntry)
    secrets: tuple[CredentialsEntry, ...] = repeated(2, CredentialsEntry)


@dataclass(frozen=True, slots=True)
class Method(Generic[Request, Response]):
    """A method of one of Hadoop's protocols; versions are 1 everywhere.

    Attributes:
        protocol: the protocol name in the connection context and in each call (Java's `@ProtocolInfo`).
        name: the Java method name.
        idempotent: whether it may be sent again when the outcome of the first call is unknown: Hadoop marks it as
            idempotent, or as at-most-once (the server recognizes the retry).
    """

    protocol: str
    name: str
    request: type[Request]
    response: type[Response]
    idempotent: bool = False
