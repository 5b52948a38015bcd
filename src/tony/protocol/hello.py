"""The fixed-size hello that opens every connection, and its answer. Bytes in, verdict out; no socket.

Whoever connects sends 40 bytes: magic, wire version, who it is, the job's token. The other side reads exactly these
and answers 8 bytes: magic, its own version, a status. Only then do frames begin, in both directions.

Both sizes, the magic and the place of the version never change, so that any two versions can tell each other apart.
"""

from __future__ import annotations

import struct
from enum import Enum

from tony.errors import ProtocolError
from tony.protocol.error_codes import Code

#: Goes up by one when a peer of the version before could misunderstand us. Unknown fields are ignored, so a new
#: optional field alone is no reason.
WIRE_VERSION = 1

_MAGIC = b"TONY"
_HELLO = struct.Struct(">4sHBx32s")
_ANSWER = struct.Struct(">4sHBx")
HELLO_SIZE = _HELLO.size
ANSWER_SIZE = _ANSWER.size

#: The names in the certificates of the application master and of whoever talks to it. They are not hosts':
#: containers are given out wherever there is room.
AM_NAME = "tony-am"
PEER_NAME = "tony-executor"


class PeerKind(Enum):
    """Who connects: to the application master, or, if it is that one itself, to an executor."""

    EXECUTOR = "executor"  #: one per container
    CLIENT = "client"  #: follows, asks, kills
    MASTER = "master"  #: has come up elsewhere, and calls its executors

    @property
    def own_name(self) -> str:
        """The name in the certificate of whoever connects as this."""
        return AM_NAME if self is PeerKind.MASTER else PEER_NAME

    @property
    def partner_name(self) -> str:
        """The name in the certificate of the one that it connects to."""
        return PEER_NAME if self is PeerKind.MASTER else AM_NAME


_KIND_NUMBERS = {PeerKind.EXECUTOR: 1, PeerKind.CLIENT: 2, PeerKind.MASTER: 3}
_KINDS = {number: kind for kind, number in _KIND_NUMBERS.items()}
_STATUS_NUMBERS: dict[Code | None, int] = {None: 0, Code.VERSION: 1, Code.TOKEN: 2, Code.BAD_MESSAGE: 3, Code.BUSY: 4}
_STATUSES = {number: code for code, number in _STATUS_NUMBERS.items()}
_REASONS = {
    Code.TOKEN: "the token is not this job's; the credentials belong to another job, or to an earlier one of that name",
    Code.BAD_MESSAGE: "it did not understand the hello",
    Code.BUSY: "it is busy; try again later",
}


def encode_hello(kind: PeerKind, token: str, version: int = WIRE_VERSION) -> bytes:
    """The first bytes of whoever connects.

    Args:
        token: 64 hex digits, `Credentials.token`.
    """
    return _HELLO.pack(_MAGIC, version, _KIND_NUMBERS[kind], token_bytes(token))


def check_hello(data: bytes, token: str) -> PeerKind:
    """Judges a hello: who is it?

    Args:
        data: exactly `HELLO_SIZE` bytes.
        token: the job's.

    Raises:
        ProtocolError: `bad-message`, `version` or `token`. The text holds nothing of what was received.
    """
    import hmac  # brings OpenSSL, 4 MB, with it; those who only connect do without

    magic, version, number, given = _HELLO.unpack(data)
    if magic != _MAGIC:
        raise ProtocolError(Code.BAD_MESSAGE, "this is not a tony peer: its first bytes are not our hello")
    if version != WIRE_VERSION:
        raise ProtocolError(Code.VERSION, _versions(theirs=version))
    if not hmac.compare_digest(given, token_bytes(token)):
        raise ProtocolError(Code.TOKEN, "the token is not this job's")
    kind = _KINDS.get(number)
    if kind is None:
        raise ProtocolError(Code.BAD_MESSAGE, f"no kind of peer has the number {number}")
    return kind


def encode_answer(code: Code | None, version: int = WIRE_VERSION) -> bytes:
    """What the one who listens answers to a hello; None: welcome."""
    return _ANSWER.pack(_MAGIC, version, _STATUS_NUMBERS.get(code, _STATUS_NUMBERS[Code.BAD_MESSAGE]))


def check_answer(data: bytes) -> None:
    """Reads the answer to our hello: exactly `ANSWER_SIZE` bytes.

    Raises:
        ProtocolError: we were refused, with the code that the other side gave.
    """
    magic, version, status = _ANSWER.unpack(data)
    if magic != _MAGIC:
        raise ProtocolError(Code.BAD_MESSAGE, "something else than tony's application master answers at this address")
    if version != WIRE_VERSION:
        raise ProtocolError(Code.VERSION, _versions(theirs=version))
    if status == 0:
        return
    code = _STATUSES.get(status)
    reason = _REASONS.get(code, f"status {status}") if code else f"status {status}"
    raise ProtocolError(code or Code.BAD_MESSAGE, f"the application master refused us: {reason}")


def token_bytes(token: str) -> bytes:
    """The 32 bytes behind 64 hex digits.

    Raises:
        ValueError: if it is something else; the text does not show it.
    """
    try:
        raw = bytes.fromhex(token)
    except ValueError:
        raw = b""
    if len(raw) != 32 or len(token) != 64:
        raise ValueError("a token is 64 hex digits")
    return raw


def _versions(theirs: int) -> str:
    return (
        f"the other side speaks wire version {theirs}, this one version {WIRE_VERSION}; "
        "use the same release of tony on both sides"
    )
