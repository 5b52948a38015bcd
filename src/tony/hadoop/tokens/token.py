"""A token: a name that its maker can read, and a password that proves the name."""

from __future__ import annotations

from dataclasses import dataclass, field

from tony.hadoop.tokens.writable import Malformed, WritableReader


@dataclass(frozen=True, slots=True, kw_only=True)
class HadoopToken:
    """A token that a daemon issued for authentication to it.

    Attributes:
        identifier: who may do what until when, in the maker's own format (see `identifiers`).
        password: the maker's signature under the identifier. Secret; of any length.
        kind: `HDFS_DELEGATION_TOKEN`, `YARN_AM_RM_TOKEN`, `NMToken`...
        service: for which daemon: `ip:port`, `ha-hdfs:nameservice`, a comma list, or empty.
    """

    identifier: bytes
    password: bytes = field(repr=False)
    kind: str
    service: str = ""


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


def read_hdfs_identifier(token: HadoopToken) -> HdfsDelegationIdentifier:
    """Return what the identifier of an HDFS delegation token says.

    Raises:
        Malformed: it cannot be read.
    """
    reader = WritableReader(token.identifier)
    version = reader.take(1)[0]
    if version:
        raise Malformed(f"the identifier of an HDFS token has version {version}; 0 is known")
    return HdfsDelegationIdentifier(
        owner=reader.read_text(),
        renewer=reader.read_text(),
        real_user=reader.read_text(),
        issued_ms=reader.read_number(),
        ends_ms=reader.read_number(),
        sequence_number=reader.read_number(),
        key_id=reader.read_number(),
    )
