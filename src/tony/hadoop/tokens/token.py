"""A token: a name that its maker can read, and a password that proves the name."""

from __future__ import annotations

from dataclasses import dataclass, field


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
