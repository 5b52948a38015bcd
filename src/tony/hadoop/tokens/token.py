"""A token: a name that its maker can read, and a password that proves the name."""

from __future__ import annotations

from dataclasses import dataclass, field

from tony.hadoop.tokens.writable import MalformedWritableError, WritableReader


@dataclass(frozen=True, slots=True, kw_only=True)
class HadoopToken:
    """A token that a daemon issued for authentication to it.

    Attributes:
        identifier: user, permissions and expiry, in the issuer's own format.
        password: the maker's signature under the identifier. Secret; of any length.
        kind: `HDFS_DELEGATION_TOKEN`, `YARN_AM_RM_TOKEN`, `NMToken`...
        service: for which daemon: `ip:port`, `ha-hdfs:nameservice`, a comma list, or empty.
    """

    identifier: bytes
    password: bytes = field(repr=False)
    kind: str
    service: str = ""


def read_hdfs_owner(token: HadoopToken) -> str:
    """Return the owner of an HDFS delegation token.

    Raises:
        MalformedWritableError: its identifier cannot be read.
    """
    reader = WritableReader(token.identifier)
    version = reader.take(1)[0]
    if version:
        raise MalformedWritableError(f"the identifier of an HDFS token has version {version}; 0 is known")
    return reader.read_text()
