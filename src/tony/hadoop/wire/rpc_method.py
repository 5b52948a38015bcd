"""A method of one of Hadoop's protocols, with the types of its request and response."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from tony.hadoop.wire.proto import ProtoMessage

Request = TypeVar("Request", bound=ProtoMessage)
Response = TypeVar("Response", bound=ProtoMessage)


@dataclass(frozen=True, slots=True, kw_only=True)
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

    def __str__(self) -> str:
        return self.name
