"""One call of a protocol: what it is named, what goes and what comes back."""

from __future__ import annotations

from typing import Generic, TypeVar

from tony.dataclass import dataclass
from tony.hadoop.wire.proto import ProtoMessage

Request = TypeVar("Request", bound=ProtoMessage)
Response = TypeVar("Response", bound=ProtoMessage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Method(Generic[Request, Response]):
    """A method of one of Hadoop's protocols; versions are 1 everywhere.

    Attributes:
        protocol: the name that the connection context and each call carry (Java's `@ProtocolInfo`).
        name: the method, as Java spells it.
        request: the type of what is sent.
        response: the type of what comes back.
        idempotent: whether it may be sent a second time when nobody knows what became of the first: Hadoop marks it
            as idempotent, or as done at most once (the server knows the repetition).
    """

    protocol: str
    name: str
    request: type[Request]
    response: type[Response]
    idempotent: bool = False

    def __str__(self) -> str:
        return self.name
