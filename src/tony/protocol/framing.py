"""Frames: from messages to bytes and back. Bytes may come in any pieces; no socket in sight.

A frame is a 4-byte big-endian length and that many bytes of UTF-8: one JSON object, `{"k": <kind>, ...fields}`.
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any

from tony.errors import ProtocolError
from tony.model.codec import DecodeError, Json, from_plain, to_plain
from tony.protocol.errors import Code
from tony.protocol.messages import MESSAGES, Message, StartProgram

#: Bytes of one frame from an executor or a client. The largest they have to say is a report with one line of output,
#: a few KiB; 10,000 of them that all send the largest possible frame must not end the application master at once.
MAX_FROM_PEER = 2**20
#: Bytes of one frame from the application master. A report of 10,000 tasks is about 4 MB, a cluster spec of as many
#: hosts with long names 1 MB; eight times that is room for notes, and still a small part of a client's memory.
MAX_FROM_AM = 32 * 2**20

_LENGTH = struct.Struct(">I")
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))


def encode(message: Message, limit: int = MAX_FROM_AM) -> bytes:
    """One message as a frame, ready to be sent (to many, if the same goes to many).

    Half characters (surrogates, as Python makes them of undecodable file names) become `?`.

    Raises:
        ProtocolError: `too-long`.
    """
    body = _json({"k": message.kind, **to_plain(message)})
    return _frame(message.kind, body, limit)


def encode_shared(shared: Json) -> bytes:
    """The JSON text of `StartProgram.shared`, made once for all tasks: see `encode_with_shared`."""
    return _json(shared)


def encode_with_shared(message: StartProgram, shared: bytes, limit: int = MAX_FROM_AM) -> bytes:
    """The frame of a `StartProgram` whose `shared` is already JSON text, so that N tasks cost one encoding of it.

    Args:
        message: its own `shared` is left out.
        shared: from `encode_shared`.

    Raises:
        ProtocolError: `too-long`.
    """
    own = {"k": message.kind, **to_plain(message)}
    own.pop("shared")
    return _frame(message.kind, b'%b,"shared":%b}' % (_json(own)[:-1], shared), limit)


class Decoder:
    """Turns one side's bytes into messages.

    Feed it what came, then take messages until it answers None. After an error it is of no more use: the place where
    the next frame would begin is not known.
    """

    __slots__ = ("_buffer", "_error", "_limit")

    def __init__(self, limit: int) -> None:
        """Makes a decoder for frames of at most `limit` bytes."""
        self._limit = limit
        self._buffer = bytearray()
        self._error: ProtocolError | None = None

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Adds bytes in the order they came."""
        if self._error is None:
            self._buffer += data

    def next_message(self) -> Message | None:
        """The next complete message, or None until more bytes come.

        Raises:
            ProtocolError: `too-long` (as soon as the length is known), `not-json`, `unknown-kind` or `bad-message`.
        """
        if self._error is not None:
            raise self._error
        buffer = self._buffer
        if len(buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(buffer)
        try:
            if length > self._limit:
                raise ProtocolError(Code.TOO_LONG, f"a frame of {length} bytes; at most {self._limit} are allowed")
            end = _LENGTH.size + length
            if len(buffer) < end:
                return None
            body = bytes(memoryview(buffer)[_LENGTH.size : end])
            del buffer[:end]
            return decode(body)
        except ProtocolError as error:
            self._error = error
            buffer.clear()
            raise


def decode(body: bytes) -> Message:
    """The message of one frame, its length taken off.

    Raises:
        ProtocolError: `not-json`, `unknown-kind` or `bad-message`.
    """
    plain = _parse(body)
    kind = plain.pop("k", None)
    cls = MESSAGES.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise ProtocolError(Code.UNKNOWN_KIND, f"no message of the kind {_shown(kind)}")
    try:
        return from_plain(cls, plain, ignore_unknown=True)
    except DecodeError as error:
        raise ProtocolError(Code.BAD_MESSAGE, f"{cls.kind}: {error}") from None


def _parse(body: bytes) -> dict[str, Any]:
    try:
        text = str(body, "utf-8")
        plain = _DECODER.decode(text)
        # An escape can smuggle in half a character, which nothing could print or write to a file.
        if "\\u" in text:
            _ENCODER.encode(plain).encode()
    except ValueError as error:
        reason = "not UTF-8" if isinstance(error, UnicodeError) else str(error)
        raise ProtocolError(Code.NOT_JSON, f"a frame that is not JSON: {reason}") from None
    except RecursionError:
        raise ProtocolError(Code.NOT_JSON, "a frame that is nested too deeply") from None
    if not isinstance(plain, dict):
        raise ProtocolError(Code.NOT_JSON, "a frame that is not a JSON object")
    return plain


def _frame(kind: str, body: bytes, limit: int) -> bytes:
    if len(body) > limit:
        raise ProtocolError(Code.TOO_LONG, f"a {kind} of {len(body)} bytes; at most {limit} can be sent")
    return _LENGTH.pack(len(body)) + body


def _json(value: Json) -> bytes:
    return _ENCODER.encode(value).encode("utf-8", "replace")


def _shown(value: object) -> str:
    return f"{value!r:.80}" if isinstance(value, str | int | None) else type(value).__name__


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number beyond what a double holds")
    return number


def _whole(text: str) -> int:
    # 64 bits: what every reader of our records (SQLite, other languages) can hold.
    if len(text) > 20 or not -(2**63) <= (number := int(text)) < 2**64:
        raise ValueError("a whole number beyond 64 bits")
    return number


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite, parse_int=_whole)
