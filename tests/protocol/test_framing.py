"""Bytes become messages or a ProtocolError, in whatever pieces they come; messages become frames."""

from __future__ import annotations

import struct
import zlib
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocol.message_classes import MESSAGE_CLASSES
from tests.value_strategies import PLAIN, values
from tony.errors import ProtocolError
from tony.protocol.error_codes import Code
from tony.protocol.executor_messages import Ack, Heartbeat, ReleaseExecutor, StartProgram
from tony.protocol.framing import (
    MAX_FROM_AM,
    MAX_FROM_PEER,
    MAX_RAW,
    Decoder,
    Raw,
    decode,
    encode,
    encode_for_many,
)
from tony.protocol.message_base import Message
from tony.protocol.shared_messages import SetLogLevel

CLASSES: list[Any] = list(MESSAGE_CLASSES)
ANY_MESSAGE: st.SearchStrategy[Message] = st.sampled_from(CLASSES).flatmap(values)


def frame(body: bytes) -> bytes:
    """A body with its length in front."""
    return struct.pack(">I", len(body)) + body


def all_from(decoder: Decoder, pieces: list[bytes]) -> tuple[list[Message], str | None]:
    """What a decoder makes of bytes in these pieces: the messages, and the code of the error that ended it."""
    messages: list[Message] = []
    try:
        for piece in pieces:
            decoder.feed(piece)
            while (message := decoder.decode_next()) is not None:
                messages.append(message)
    except ProtocolError as error:
        return messages, error.code
    return messages, None


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """The data in pieces, cut at these places (modulo its length)."""
    edges = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(edges)]


CUTS = st.lists(st.integers(0, 2**16), max_size=8)


@given(st.lists(ANY_MESSAGE, max_size=4), CUTS)
def test_messages_arrive_as_they_were_sent(messages: list[Message], places: list[int]) -> None:
    """Every message comes back equal and in order, wherever the network cuts the bytes."""
    data = b"".join(encode(message) for message in messages)
    assert all_from(Decoder(MAX_FROM_AM), cut(data, places)) == (messages, None)


DEEP = b'{"k":"start-program","shared":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        (b"", Code.NOT_JSON, "a frame that is not JSON: Expecting value: line 1 column 1 (char 0)"),
        (b"{", Code.NOT_JSON, "a frame that is not JSON: Expecting property name enclosed in double quotes"),
        (b'{"k":"done"} x', Code.NOT_JSON, "a frame that is not JSON: Extra data"),
        (b"\xff\xfe{}", Code.NOT_JSON, "a frame that is not JSON: not UTF-8"),
        ('{"k":"done"}'.encode("utf-16"), Code.NOT_JSON, "a frame that is not JSON: not UTF-8"),
        (b"\xef\xbb\xbf{}", Code.NOT_JSON, "a frame that is not JSON: "),
        (b'{"k":"log-level","level":"\\ud800"}', Code.NOT_JSON, "a frame that is not JSON: not UTF-8"),
        (b'{"k":"ack","n":NaN}', Code.NOT_JSON, "a frame that is not JSON: NaN is not a JSON number"),
        (
            b'{"k":"release","grace":-Infinity}',
            Code.NOT_JSON,
            "a frame that is not JSON: -Infinity is not a JSON number",
        ),
        (b'{"k":"release","grace":1e999}', Code.NOT_JSON, "a frame that is not JSON: a number beyond what a double"),
        (b'{"k":"ack","n":18446744073709551616}', Code.NOT_JSON, "a frame that is not JSON: a whole number beyond 64"),
        (b'{"k":"ack","n":' + b"9" * 5000 + b"}", Code.NOT_JSON, "a frame that is not JSON: a whole number beyond 64"),
        (DEEP, Code.NOT_JSON, "a frame that is nested too deeply"),
        (b"[]", Code.NOT_JSON, "a frame that is not a JSON object"),
        (b"null", Code.NOT_JSON, "a frame that is not a JSON object"),
        (b"{}", Code.UNKNOWN_KIND, "no message of the kind None"),
        (b'{"k":"nonsense"}', Code.UNKNOWN_KIND, "no message of the kind 'nonsense'"),
        (b'{"k":["ack"]}', Code.UNKNOWN_KIND, "no message of the kind list"),
        (b'{"k":"\\u001b[2J\xe2\x80\xae"}', Code.UNKNOWN_KIND, r"no message of the kind '\x1b[2J\u202e'"),
        (b'{"k":"ack"}', Code.BAD_MESSAGE, "ack: Ack lacks n"),
        (b'{"k":"ack","n":"1"}', Code.BAD_MESSAGE, "ack: .n: expected a whole number, not text"),
        (b'{"k":"ack","n":true}', Code.BAD_MESSAGE, "ack: .n: expected a whole number, not a truth value"),
    ],
)
def test_each_bad_frame_has_its_code(body: bytes, code: Code, text: str) -> None:
    """The code is for programs, the text for people; neither repeats what could do harm in a log."""
    decoder = Decoder(MAX_FROM_PEER)
    decoder.feed(frame(body))
    with pytest.raises(ProtocolError) as caught:
        decoder.decode_next()
    assert caught.value.code == code
    assert str(caught.value).startswith(text)
    assert str(caught.value).isprintable()


def test_a_frame_that_is_too_long_is_refused_by_its_length_alone() -> None:
    """A body that may not come is neither awaited nor kept."""
    decoder = Decoder(100)
    decoder.feed(struct.pack(">I", 100))
    assert decoder.decode_next() is None
    decoder = Decoder(100)
    decoder.feed(struct.pack(">I", 101))
    with pytest.raises(ProtocolError, match="a frame of 101 bytes; at most 100 are allowed") as caught:
        decoder.decode_next()
    assert caught.value.code == Code.TOO_LONG


def test_a_failed_decoder_repeats_its_error() -> None:
    """After an error no byte is taken for a frame's beginning."""
    decoder = Decoder(100)
    decoder.feed(frame(b"[]"))
    for _ in range(2):
        with pytest.raises(ProtocolError) as caught:
            decoder.decode_next()
        assert caught.value.code == Code.NOT_JSON
        decoder.feed(encode(Ack(n=1)))


def test_messages_before_a_bad_frame_count() -> None:
    """One read may bring a good message and a bad one; the good one is returned first."""
    data = encode(Ack(n=1)) + frame(b"[]") + encode(Ack(n=2))
    assert all_from(Decoder(100), [data]) == ([Ack(n=1)], Code.NOT_JSON)


def test_fields_of_a_newer_version_are_ignored() -> None:
    """A new optional field needs no new version of the wire."""
    assert decode(b'{"k":"release","grace":1.5,"new":{"a":[1]}}') == ReleaseExecutor(grace=1.5)


@given(PLAIN, CUTS)
def test_a_shared_frame_decodes_to_the_same_message(shared: Any, places: list[int]) -> None:
    """Whether or not it was worth compressing, and in whatever pieces it arrives."""
    message = StartProgram(attempt=1, session=2, try_=3, version=4, shared=shared)
    data = encode_for_many(message)
    assert all_from(Decoder(MAX_FROM_AM), cut(data, places)) == ([message], None)


def test_a_long_list_for_many_is_compressed() -> None:
    """Ten thousand addresses take a fifth; what is short is left as it is."""
    addresses = [f"node{n // 8:05}.cluster:{32768 + n * 7919 % 28000}" for n in range(10_000)]
    message = StartProgram(attempt=1, session=1, try_=1, version=1, shared={"cluster": {"worker": addresses}})
    assert len(encode_for_many(message)) < len(encode(message)) / 5
    assert all_from(Decoder(MAX_FROM_AM), [encode_for_many(message) * 2]) == ([message, message], None)
    assert encode_for_many(Ack(n=1)) == encode(Ack(n=1))


def compressed(body: bytes) -> bytes:
    """A frame whose body says that it is compressed."""
    return struct.pack(">I", len(body) | 1 << 31) + body


def test_a_small_frame_cannot_expand_beyond_the_limit() -> None:
    """A kilobyte may stand for a gigabyte: no more of it is made than may come in."""
    bomb = zlib.compress(b" " * (MAX_FROM_PEER + 1))
    assert len(bomb) < 2000
    assert all_from(Decoder(MAX_FROM_PEER), [compressed(bomb)]) == ([], Code.TOO_LONG)
    assert all_from(Decoder(MAX_FROM_PEER), [compressed(bytes(MAX_FROM_PEER + 1))]) == ([], Code.TOO_LONG)


@pytest.mark.parametrize("damage", [b"", b"nonsense", zlib.compress(b"{}")[:-1], zlib.compress(b"{}") + b"x"])
def test_a_damaged_compressed_frame_is_refused(damage: bytes) -> None:
    """Cut short, something else, or with more behind it."""
    assert all_from(Decoder(MAX_FROM_PEER), [compressed(damage)]) == ([], Code.NOT_JSON)


def test_a_message_over_the_limit_is_refused_by_the_sender() -> None:
    """The other side never gets it."""
    with pytest.raises(ProtocolError, match="a heartbeat of 1128 bytes; at most 1000 can be sent") as caught:
        encode(Heartbeat(last_line="x" * 1024), limit=1000)
    assert caught.value.code == Code.TOO_LONG
    with pytest.raises(ProtocolError, match=r"a start-program of .* bytes; at most 1000 can be sent"):
        encode_for_many(StartProgram(attempt=1, session=1, try_=1, version=1, shared="9" * 1000), limit=1000)


def test_half_characters_become_question_marks() -> None:
    """A line of output that was no UTF-8 (surrogates, in Python) cannot break the connection."""
    data = encode(Heartbeat(last_line="caf\udce9"))
    messages, code = all_from(Decoder(MAX_FROM_PEER), [data])
    assert (messages, code) == ([Heartbeat(last_line="caf?")], None)


def test_a_pair_of_escapes_is_one_character() -> None:
    """Other writers of JSON escape characters beyond 16 bits as pairs; only a half alone is refused."""
    assert decode(b'{"k":"log-level","level":"\\ud83d\\ude00"}') == SetLogLevel(level="\U0001f600")


@given(st.lists(st.one_of(ANY_MESSAGE, st.binary(max_size=300).map(Raw.from_bytes)), max_size=4), CUTS)
def test_bytes_of_a_tunnel_arrive_between_messages(messages: list[Message], places: list[int]) -> None:
    data = b"".join(encode(message) for message in messages)
    assert all_from(Decoder(MAX_FROM_AM), cut(data, places)) == (messages, None)


def test_bytes_of_a_tunnel_come_in_small_pieces() -> None:
    """The largest is just what is read at one time; a larger one, or one that says it is compressed, is refused."""
    piece = Raw.from_bytes(bytes(MAX_RAW))
    assert (len(encode(piece)), len(piece.data)) == (2**16, MAX_RAW)
    assert all_from(Decoder(MAX_FROM_PEER), [encode(piece)]) == ([piece], None)
    for word in (MAX_RAW + 1 | 1 << 30, 10 | 3 << 30):
        assert all_from(Decoder(MAX_FROM_AM), [struct.pack(">I", word)]) == ([], Code.TOO_LONG)
    assert all_from(Decoder(100), [encode(Raw.from_bytes(bytes(101)))]) == ([], Code.TOO_LONG)


def test_many_small_messages_in_one_piece_are_all_found() -> None:
    """A peer that sends thousands at once costs no more for each of them."""
    messages: list[Message] = [Ack(n=n) for n in range(5000)]
    data = b"".join(encode(message) for message in messages)
    assert all_from(Decoder(MAX_FROM_PEER), [data]) == (messages, None)
