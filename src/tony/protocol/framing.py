"""Frames: encoding of messages as bytes and back, independent of sockets and of how the bytes are split.

A frame is a 4-byte big-endian length and that many bytes of UTF-8: one JSON object, `{"k": <kind>, ...fields}`. If the
highest bit of the length is set, the body is compressed (zlib), for messages to thousands of peers. If the next bit is
set, the body is not JSON but raw bytes of a tunnel.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass
from typing import Any, ClassVar

from tony.errors import ProtocolError
from tony.model.codec import DecodeError, from_plain, to_plain
from tony.model.strict_json import InvalidJsonError, JsonDepthError, loads
from tony.protocol.error_codes import Code
from tony.protocol.message_base import MESSAGES, Message

#: Maximum bytes of a frame from an executor or a client. Their largest message is a report with one line of output, a
#: few KiB; 10,000 peers that all send the largest possible frame must not exhaust the AM's memory at once.
MAX_FROM_PEER = 2**20
#: Maximum bytes of a frame from the AM. A report of 10,000 tasks is about 4 MB, a cluster spec of as many hosts with
#: long names 1 MB; eight times that leaves room for notes, and is still a small part of a client's memory.
MAX_FROM_AM = 32 * 2**20

#: Maximum bytes of a frame in either direction where an AM calls an executor.
MAX_SUMMON = 4 << 10

_LENGTH = struct.Struct(">I")
#: In the length: the body is compressed.
COMPRESSED = 1 << 31
#: In the length: the body is bytes of a tunnel.
RAW = 1 << 30
#: Maximum tunnel bytes in one frame; with its length such a frame is exactly one read or write.
MAX_RAW = 2**16 - _LENGTH.size
#: Minimum bytes of a body to compress; smaller jobs never import zlib.
_MIN_COMPRESSED = 16 << 10
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw(Message):
    """Bytes of a tunnel, kept as the received frame, so that forwarding copies nothing.

    Attributes:
        frame: with its length in front.
    """

    kind: ClassVar[str] = "raw"
    frame: bytes

    @classmethod
    def from_bytes(cls, data: bytes) -> Raw:
        """Build a frame of these bytes, at most `MAX_RAW`."""
        return cls(frame=_LENGTH.pack(len(data) | RAW) + data)

    @property
    def data(self) -> memoryview:
        """The payload."""
        return memoryview(self.frame)[_LENGTH.size :]


def encode(message: Message, limit: int = MAX_FROM_AM) -> bytes:
    """Encode one message as a frame.

    Lone surrogates, as Python makes them of undecodable file names, become `?`.

    Raises:
        ProtocolError: `too-long`.
    """
    if isinstance(message, Raw):
        return message.frame
    body = _encode_body(message, limit)
    return _LENGTH.pack(len(body)) + body


def encode_for_many(message: Message, limit: int = MAX_FROM_AM) -> bytes:
    """Encode one message for thousands of peers: once, and compressed if that is shorter.

    A list of 10,000 addresses takes 250 KB, or a fifth of that compressed, which costs 3 ms once; sending it to all of
    them is 2.5 GB or 0.5 GB to encrypt, copy and transfer.

    Raises:
        ProtocolError: `too-long`, measured before compression.
    """
    body = _encode_body(message, limit)
    if len(body) >= _MIN_COMPRESSED:
        compressed = zlib.compress(body)
        if len(compressed) < len(body):
            return _LENGTH.pack(len(compressed) | COMPRESSED) + compressed
    return _LENGTH.pack(len(body)) + body


class Decoder:
    """Decodes the bytes of one side into messages.

    Feed it bytes, then call `decode_next` until it returns None. It cannot be used after an error: the start of the
    next frame is not known.
    """

    __slots__ = ("_buffer", "_error", "_limit")

    def __init__(self, limit: int) -> None:
        """Args:
        limit: maximum bytes of a frame.
        """
        self._limit = limit
        self._buffer = bytearray()
        self._error: ProtocolError | None = None

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Add bytes in the order in which they were received."""
        if self._error is None:
            self._buffer += data

    def decode_next(self) -> Message | None:
        """Return the next complete message, or None until more bytes arrive.

        Raises:
            ProtocolError: `too-long` (as soon as the length is known), `not-json`, `unknown-kind` or `bad-message`.
        """
        if self._error is not None:
            raise self._error
        buffer = self._buffer
        if len(buffer) < _LENGTH.size:
            return None
        (word,) = _LENGTH.unpack_from(buffer)
        raw = word & (COMPRESSED | RAW) == RAW
        length = word & ~(RAW if raw else COMPRESSED)
        limit = min(MAX_RAW, self._limit) if raw else self._limit
        try:
            if length > limit:
                raise ProtocolError(Code.TOO_LONG, f"a frame of {length} bytes; at most {limit} are allowed")
            end = _LENGTH.size + length
            if len(buffer) < end:
                return None
            if raw:
                frame = bytes(memoryview(buffer)[:end])
                del buffer[:end]
                return Raw(frame=frame)
            body = bytes(memoryview(buffer)[_LENGTH.size : end])
            del buffer[:end]
            return decode(_decompress(body, self._limit) if word & COMPRESSED else body)
        except ProtocolError as error:
            self._error = error
            buffer.clear()
            raise


def decode(body: bytes) -> Message:
    """Decode the body of one frame.

    Raises:
        ProtocolError: `not-json`, `unknown-kind` or `bad-message`.
    """
    plain = _parse(body)
    kind = plain.pop("k", None)
    cls = MESSAGES.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise ProtocolError(Code.UNKNOWN_KIND, f"no message of the kind {_format_value(kind)}")
    try:
        return from_plain(cls, plain, ignore_unknown=True)
    except DecodeError as error:
        raise ProtocolError(Code.BAD_MESSAGE, f"{cls.kind}: {error}") from None


def _parse(body: bytes) -> dict[str, Any]:
    try:
        plain = loads(body)
    except JsonDepthError:
        raise ProtocolError(Code.NOT_JSON, "a frame that is nested too deeply") from None
    except InvalidJsonError as error:
        raise ProtocolError(Code.NOT_JSON, f"a frame that is not JSON: {error}") from None
    if not isinstance(plain, dict):
        raise ProtocolError(Code.NOT_JSON, "a frame that is not a JSON object")
    return plain


def _encode_body(message: Message, limit: int) -> bytes:
    body = _ENCODER.encode({"k": message.kind, **to_plain(message)}).encode("utf-8", "replace")
    if len(body) > limit:
        raise ProtocolError(Code.TOO_LONG, f"a {message.kind} of {len(body)} bytes; at most {limit} can be sent")
    return body


def _decompress(body: bytes, limit: int) -> bytes:
    """Decompress a body, up to the limit: a small one may expand without end."""
    expander = zlib.decompressobj()
    try:
        plain = expander.decompress(body, limit + 1)
    except zlib.error:
        raise ProtocolError(Code.NOT_JSON, "a compressed frame that is damaged") from None
    if len(plain) > limit:
        raise ProtocolError(Code.TOO_LONG, f"a compressed frame of more than {limit} bytes; not more are allowed")
    if not expander.eof or expander.unused_data:
        raise ProtocolError(Code.NOT_JSON, "a compressed frame that is damaged")
    return plain


def _format_value(value: object) -> str:
    return f"{value!r:.80}" if isinstance(value, str | int | None) else type(value).__name__
