"""Bytes from the wire, before any socket: frames, hello, every message, an executor's launch context."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from tests.fuzz.target import Target, hold
from tests.fuzz.values import CLASSES, plain_of
from tests.protocol.message_classes import MESSAGE_CLASSES
from tony.errors import ProtocolError
from tony.executor.main import decode_context
from tony.model.codec import DecodeError, from_plain, to_plain
from tony.protocol.error_codes import Code
from tony.protocol.framing import Decoder, Raw, decode, encode
from tony.protocol.hello import (
    ANSWER_SIZE,
    HELLO_SIZE,
    PeerKind,
    check_answer,
    check_hello,
    encode_answer,
    encode_hello,
)
from tony.protocol.launch import LaunchContext
from tony.protocol.message_base import Message

_LIMIT = 3000
_TOKEN = "0123456789abcdef" * 4
_KINDS: Mapping[str, type[Any]] = {cls.__name__: cls for cls in CLASSES}


def frames(data: bytes) -> None:
    """The first byte says how the rest is cut; however that is, the same comes out."""
    cut, stream = data[0] if data else 0, data[1:]
    whole = _decoded([stream])
    step = cut + 1
    edges = [*range(0, len(stream), step), len(stream)]
    assert _decoded([stream[start:end] for start, end in pairwise(edges)]) == whole
    if whole[1]:
        raise whole[1][0]


def _decoded(pieces: list[bytes]) -> tuple[list[Message], list[ProtocolError]]:
    decoder = Decoder(_LIMIT)
    messages: list[Message] = []
    try:
        for piece in pieces:
            decoder.feed(piece)
            while (message := decoder.decode_next()) is not None:
                messages.append(message)
                if isinstance(message, Raw):
                    assert Raw.from_bytes(bytes(message.data)) == message
                else:
                    assert decode(encode(message)[4:]) == message
    except ProtocolError as error:
        Code(error.code)
        return messages, [_SameError(error)]
    return messages, []


class _SameError(ProtocolError):
    """Equal to another one that says the same."""

    def __init__(self, error: ProtocolError) -> None:
        super().__init__(error.code, str(error))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProtocolError) and (self.code, str(self)) == (other.code, str(other))

    __hash__ = None  # type: ignore[assignment]


def hello(data: bytes) -> None:
    """Either half of it, as many bytes as it has."""
    first = data[:HELLO_SIZE].ljust(HELLO_SIZE, b"\0")
    try:
        assert encode_hello(check_hello(first, _TOKEN), _TOKEN)[:7] == first[:7]
    except ProtocolError as error:
        hold(error.code in (Code.BAD_MESSAGE, Code.VERSION, Code.TOKEN), error)
        encode_answer(Code(error.code))
    check_answer(data[:ANSWER_SIZE].ljust(ANSWER_SIZE, b"\0"))


def values(data: bytes) -> None:
    """A line with the name of a class, and JSON: what is read can be written, and is then the same."""
    name, _, text = data.partition(b"\n")
    cls = _KINDS.get(name.decode("ascii", "replace"))
    if cls is None:
        return
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError):
        return
    for lenient in (True, False):
        value = from_plain(cls, plain, ignore_unknown=lenient)
        try:
            again = to_plain(value)
        except (ValueError, RecursionError):
            return  # NaN, or nesting, in a field that may be anything: frames are read without either
        assert from_plain(cls, again) == value


def launch(data: bytes) -> None:
    """What an executor is told at its birth."""
    decode_context(data)


def _message_seeds() -> list[bytes]:
    return [json.dumps({"k": cls.kind, **plain_of(cls)}).encode() for cls in MESSAGE_CLASSES]


def framed_messages() -> list[bytes]:
    return [struct.pack(">I", len(body)) + body for body in _message_seeds()]


def _frame_seeds() -> list[bytes]:
    framed = framed_messages()
    return [b"\x00" + frame for frame in framed] + [b"\x04" + b"".join(framed[:3]), b"\xff\xff\xff\xff\xff{"]


def _hello_seeds() -> list[bytes]:
    hellos = [encode_hello(kind, _TOKEN) for kind in PeerKind] + [encode_hello(PeerKind.CLIENT, _TOKEN, version=2)]
    return hellos + [encode_answer(code) for code in (None, *Code)]


def _value_seeds() -> list[bytes]:
    return [f"{name}\n{json.dumps(plain_of(cls))}".encode() for name, cls in _KINDS.items()]


TARGETS = (
    Target(name="frames", run=frames, errors=(ProtocolError,), seeds=_frame_seeds),
    Target(name="hello", run=hello, errors=(ProtocolError,), seeds=_hello_seeds, longest=64),
    Target(name="values", run=values, errors=(DecodeError,), seeds=_value_seeds, json=True),
    Target(
        name="launch",
        run=launch,
        errors=(ValueError,),
        seeds=lambda: [json.dumps(plain_of(LaunchContext)).encode()],
        json=True,
    ),
)
