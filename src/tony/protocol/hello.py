"""The fixed-size hello that opens every connection, and its answer; independent of sockets.

The connecting side sends 40 bytes: magic, wire version, peer kind, the job's token. The other side reads exactly these
and answers 8 bytes: magic, its own version, a status. Only then do frames begin, in both directions.

Both sizes, the magic and the position of the version never change, so that any two versions can recognise each other.
"""

from __future__ import annotations

import struct
from enum import Enum

from tony.errors import ProtocolError
from tony.protocol.error_codes import Code

#: Raise it by one when a peer of the previous version could misunderstand a message. Unknown fields are ignored, so a
#: new optional field needs no new version.
WIRE_VERSION = 1

_MAGIC = b"TONY"
_HELLO = struct.Struct(">4sHBx32s")
_ANSWER = struct.Struct(">4sHBx")
HELLO_SIZE = _HELLO.size
ANSWER_SIZE = _ANSWER.size

#: The names in the certificates of the AM and of its peers. They are not host names: containers run on any host.
AM_NAME = "tony-am"
PEER_NAME = "tony-executor"


class PeerKind(Enum):
    """Kind of the connecting peer: to the AM, or, for `MASTER`, to an executor."""

    EXECUTOR = "executor"  #: one per container
    CLIENT = "client"  #: follows, queries, kills
    MASTER = "master"  #: an AM on another node that calls its executors

    @property
    def own_name(self) -> str:
        """The name in the certificate of the connecting side."""
        return AM_NAME if self is PeerKind.MASTER else PEER_NAME

    @property
    def partner_name(self) -> str:
        """The name in the certificate of the listening side."""
        return PEER_NAME if self is PeerKind.MASTER else AM_NAME


_KIND_NUMBERS = {PeerKind.EXECUTOR: 1, PeerKind.CLIENT: 2, PeerKind.MASTER: 3}
_KINDS = {number: kind for kind, number in _KIND_NUMBERS.items()}
_STATUS_NUMBERS: dict[Code | None, int] = {None: 0, Code.VERSION: 1, Code.TOKEN: 2, Code.BAD_MESSAGE: 3, Code.BUSY: 4}
_STATUSES = {number: code for code, number in _STATUS_NUMBERS.items()}
_REASONS = {
    Code.TOKEN: "the token is not this job's: the credentials belong to another job, or to an earlier one of that name",
    Code.BAD_MESSAGE: "it did not understand the hello",
    Code.BUSY: "it is busy; try again later",
}


def encode_hello(kind: PeerKind, token: str, version: int = WIRE_VERSION) -> bytes:
    """Encode the hello of the connecting side.

    Args:
        token: 64 hex digits, `Credentials.token`.
    """
    return _HELLO.pack(_MAGIC, version, _KIND_NUMBERS[kind], decode_token(token))


def check_hello(data: bytes, token: str) -> PeerKind:
    """Check a hello and return the kind of the peer.

    Args:
        data: exactly `HELLO_SIZE` bytes.
        token: the job's.

    Raises:
        ProtocolError: `bad-message`, `version` or `token`. The text contains nothing of what was received.
    """
    import hmac  # late: imports OpenSSL, 4 MB, which connecting peers do not need

    magic, version, number, given = _HELLO.unpack(data)
    if magic != _MAGIC:
        raise ProtocolError(Code.BAD_MESSAGE, "this is not a tony peer: its first bytes are not the hello")
    if version != WIRE_VERSION:
        raise ProtocolError(Code.VERSION, _format_versions(peer_version=version))
    if not hmac.compare_digest(given, decode_token(token)):
        raise ProtocolError(Code.TOKEN, "the token is not this job's")
    kind = _KINDS.get(number)
    if kind is None:
        raise ProtocolError(Code.BAD_MESSAGE, f"unknown kind of peer: {number}")
    return kind


def encode_answer(code: Code | None, version: int = WIRE_VERSION) -> bytes:
    """Encode the listening side's answer to a hello; None: accepted."""
    return _ANSWER.pack(_MAGIC, version, _STATUS_NUMBERS.get(code, _STATUS_NUMBERS[Code.BAD_MESSAGE]))


def check_answer(data: bytes) -> None:
    """Check the answer to a hello: exactly `ANSWER_SIZE` bytes.

    Raises:
        ProtocolError: the other side refused, with its code.
    """
    magic, version, status = _ANSWER.unpack(data)
    if magic != _MAGIC:
        raise ProtocolError(Code.BAD_MESSAGE, "this address is not an application master of tony")
    if version != WIRE_VERSION:
        raise ProtocolError(Code.VERSION, _format_versions(peer_version=version))
    if status == 0:
        return
    code = _STATUSES.get(status)
    reason = _REASONS.get(code, f"status {status}") if code else f"status {status}"
    raise ProtocolError(code or Code.BAD_MESSAGE, f"the application master refused the connection: {reason}")


def decode_token(token: str) -> bytes:
    """Decode the 64 hex digits of a token.

    Raises:
        ValueError: it is something else; the text does not contain it.
    """
    try:
        raw = bytes.fromhex(token)
    except ValueError:
        raw = b""
    if len(raw) != 32 or len(token) != 64:
        raise ValueError("a token is 64 hex digits")
    return raw


def _format_versions(peer_version: int) -> str:
    return (
        f"the other side speaks wire version {peer_version}, this one version {WIRE_VERSION}; "
        "use the same release of tony on both sides"
    )
