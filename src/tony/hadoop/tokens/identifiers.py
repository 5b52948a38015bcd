"""What a token's identifier says: for people who ask why a token is refused. Nothing here decides anything.

YARN's identifiers are protobufs since Hadoop 2.6 (yarn_security_token.proto), HDFS's are Writable.
"""

from __future__ import annotations

from tony.dataclass import dataclass
from tony.hadoop.tokens.token import HadoopToken
from tony.hadoop.tokens.token_selector import (
    AM_RM,
    CLIENT_TO_AM,
    CONTAINER,
    HDFS_DELEGATION,
    NODE_MANAGER,
    RM_DELEGATION,
    TIMELINE_DELEGATION,
)
from tony.hadoop.tokens.writable import Malformed, WritableReader
from tony.hadoop.wire.proto import INT32, INT64, STRING, UINT64, MalformedMessage, ProtoMessage, decode, optional
from tony.hadoop.wire.yarn_records import ApplicationAttemptId, ContainerId, NodeId, Resource


class AmRmIdentifier(ProtoMessage):
    """Of an application master's token for the scheduler."""

    attempt: ApplicationAttemptId | None = optional(1, ApplicationAttemptId)
    key_id: int | None = optional(2, INT32)


class NmIdentifier(ProtoMessage):
    """Of an application master's token for one NodeManager."""

    attempt: ApplicationAttemptId | None = optional(1, ApplicationAttemptId)
    node: NodeId | None = optional(2, NodeId)
    submitter: str | None = optional(3, STRING)
    key_id: int | None = optional(4, INT32)


class ContainerIdentifier(ProtoMessage):
    """Of a container that was granted. Times are milliseconds since 1970."""

    container: ContainerId | None = optional(1, ContainerId)
    node_address: str | None = optional(2, STRING)
    submitter: str | None = optional(3, STRING)
    resource: Resource | None = optional(4, Resource)
    expires_ms: int | None = optional(5, INT64)
    key_id: int | None = optional(6, INT32)
    resource_manager_id: int | None = optional(7, INT64)
    created_ms: int | None = optional(9, INT64)


class ClientToAmIdentifier(ProtoMessage):
    """Of a user's token for an application master."""

    attempt: ApplicationAttemptId | None = optional(1, ApplicationAttemptId)
    client_name: str | None = optional(2, STRING)


class YarnDelegationIdentifier(ProtoMessage):
    """Of a user's token for the ResourceManager or the timeline service. Times are milliseconds since 1970."""

    owner: str | None = optional(1, STRING)
    renewer: str | None = optional(2, STRING)
    real_user: str | None = optional(3, STRING)
    issued_ms: int | None = optional(4, UINT64)
    ends_ms: int | None = optional(5, UINT64)
    sequence_number: int | None = optional(6, INT32)
    key_id: int | None = optional(7, INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class HdfsDelegationIdentifier:
    """Of a user's token for HDFS. Times are milliseconds since 1970.

    Attributes:
        ends_ms: no renewal goes beyond this.
    """

    owner: str
    renewer: str
    real_user: str
    issued_ms: int
    ends_ms: int
    sequence_number: int
    key_id: int


Identifier = (
    AmRmIdentifier
    | NmIdentifier
    | ContainerIdentifier
    | ClientToAmIdentifier
    | YarnDelegationIdentifier
    | HdfsDelegationIdentifier
)

_MESSAGES: dict[str, type[ProtoMessage]] = {
    AM_RM: AmRmIdentifier,
    NODE_MANAGER: NmIdentifier,
    CONTAINER: ContainerIdentifier,
    CLIENT_TO_AM: ClientToAmIdentifier,
    RM_DELEGATION: YarnDelegationIdentifier,
    TIMELINE_DELEGATION: YarnDelegationIdentifier,
}


def identify(token: HadoopToken) -> Identifier | None:
    """What the identifier says; None for a kind that we do not know.

    Raises:
        Malformed: it cannot be read as what its kind says.
    """
    if token.kind == HDFS_DELEGATION:
        return _hdfs(WritableReader(token.identifier))
    cls = _MESSAGES.get(token.kind)
    if cls is None:
        return None
    try:
        return decode(cls, token.identifier)  # type: ignore[return-value]
    except MalformedMessage as error:
        raise Malformed(f"the identifier of a {token.kind} cannot be read: {error}") from error


def _hdfs(reader: WritableReader) -> HdfsDelegationIdentifier:
    version = reader.take(1)[0]
    if version:
        raise Malformed(f"the identifier of an HDFS token has version {version}; 0 is known")
    return HdfsDelegationIdentifier(
        owner=reader.text(),
        renewer=reader.text(),
        real_user=reader.text(),
        issued_ms=reader.number(),
        ends_ms=reader.number(),
        sequence_number=reader.number(),
        key_id=reader.number(),
    )
