"""The codec: golden bytes, every class there and back, and bytes that are no message."""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hadoop.wire.test_fields import MESSAGES, message_class, plan
from tony.hadoop.wire.proto import (
    BOOL,
    BYTES,
    ENUM,
    FLOAT,
    INT32,
    INT64,
    MAX_DEPTH,
    MAX_REPEATED,
    SINT32,
    STRING,
    UINT32,
    UINT64,
    FieldKind,
    MalformedMessageError,
    ProtoMessage,
    decode,
    encode,
    encode_delimited,
    optional,
    read_delimited,
    repeated,
    replace,
    required,
    varint,
)
from tony.hadoop.wire.rpc import Token
from tony.hadoop.wire.yarn_records import NodeId, ResourceRequest, SerializedException


class Colour(IntEnum):
    """A closed enum with a negative member."""

    RED = 1
    BLUE = 300
    DARK = -1


class Inner(ProtoMessage):
    """A message in a message."""

    number: int | None = optional(1, INT32)
    names: tuple[str, ...] = repeated(2, STRING)


class Everything(ProtoMessage):
    """One field of each kind."""

    int32: int | None = optional(1, INT32)
    int64: int | None = optional(2, INT64)
    uint32: int | None = optional(3, UINT32)
    uint64: int | None = optional(4, UINT64)
    sint32: int | None = optional(5, SINT32)
    flag: bool | None = optional(6, BOOL)
    single: float | None = optional(7, FLOAT)
    string: str | None = optional(9, STRING)
    raw: bytes | None = optional(10, BYTES)
    enum: Colour | None = optional(11, ENUM(Colour))
    message: Inner | None = optional(12, Inner)
    numbers: tuple[int, ...] = repeated(13, INT32)
    enums: tuple[Colour, ...] = repeated(14, ENUM(Colour))
    messages: tuple[Inner, ...] = repeated(15, Inner)
    far: str | None = optional(2047, STRING)
    floats: tuple[float, ...] = repeated(17, FLOAT)
    with_default: int = optional(18, INT32, -7)


GOLDEN = [
    # Made by hand after protobuf's description of its encoding.
    (Everything(int32=150), "08 9601"),
    (Everything(int32=-1), "08 ffffffffffffffffff01"),
    (Everything(int64=-(1 << 63)), "10 80808080808080808001"),
    (Everything(uint32=(1 << 32) - 1), "18 ffffffff0f"),
    (Everything(uint64=(1 << 64) - 1), "20 ffffffffffffffffff01"),
    (Everything(sint32=-33), "28 41"),
    (Everything(sint32=-(1 << 31)), "28 ffffffff0f"),
    (Everything(sint32=(1 << 31) - 1), "28 feffffff0f"),
    (Everything(flag=True), "30 01"),
    (Everything(flag=False), "30 00"),
    (Everything(single=1.5), "3d 0000c03f"),
    (Everything(string="testing"), "4a 07 74657374696e67"),
    (Everything(string=""), "4a 00"),
    (Everything(raw=b"\x00\xff"), "52 02 00ff"),
    (Everything(enum=Colour.BLUE), "58 ac02"),
    (Everything(enum=Colour.DARK), "58 ffffffffffffffffff01"),
    (Everything(message=Inner(number=150)), "62 03 089601"),
    (Everything(message=Inner()), "62 00"),
    (Everything(numbers=(3, 270)), "68 03 68 8e02"),
    (Everything(messages=(Inner(), Inner(names=("a",)))), "7a 00 7a 03 120161"),
    (Everything(far="x"), "fa7f 01 78"),
    (Everything(with_default=-7), "9001 f9ffffffffffffffff01"),
    (Everything(), ""),
]


@pytest.mark.parametrize(("message", "data"), GOLDEN)
def test_golden_bytes(message: ProtoMessage, data: str) -> None:
    """The bytes are those that any protobuf writes."""
    assert encode(message).hex() == data.replace(" ", "")
    assert decode(type(message), bytes.fromhex(data)) == message


def values_of(kind: Any, depth: int) -> st.SearchStrategy[Any]:
    if not isinstance(kind, FieldKind):
        return messages(kind, depth - 1)
    if kind.name in ("int32", "sint32"):
        return st.integers(-(1 << 31), (1 << 31) - 1)
    known: dict[str, st.SearchStrategy[Any]] = {
        "int64": st.integers(-(1 << 63), (1 << 63) - 1),
        "uint32": st.integers(0, (1 << 32) - 1),
        "uint64": st.integers(0, (1 << 64) - 1),
        "bool": st.booleans(),
        "float": st.floats(width=32, allow_nan=False),
        "string": st.text(max_size=8),
        "bytes": st.binary(max_size=200),
    }
    if kind.name in known:
        return known[kind.name]
    read = kind.read or int
    return st.sampled_from([member for number in range(301) if (member := read(number)) is not None])


def messages(cls: type[ProtoMessage], depth: int = 2) -> st.SearchStrategy[Any]:
    """Messages of a class, with any of their fields."""
    wanted: dict[str, st.SearchStrategy[Any]] = {}
    always: dict[str, st.SearchStrategy[Any]] = {}
    for name, kind, many in plan(cls).values():
        needed = name in (cls._plan.required if cls._plan else ())
        if not needed and depth <= 0 and not isinstance(kind, FieldKind):
            continue
        values = values_of(kind, depth)
        (always if needed else wanted)[name] = st.lists(values, max_size=3).map(tuple) if many else values
    return st.fixed_dictionaries(always, optional=wanted).map(lambda given: cls(**given))


CLASSES: list[type[ProtoMessage]] = [Everything, *map(message_class, sorted(MESSAGES))]
ANY_MESSAGE = st.sampled_from(CLASSES).flatmap(messages)


@settings(max_examples=300)
@given(ANY_MESSAGE)
def test_every_message_survives_a_round_trip(message: ProtoMessage) -> None:
    """What was written is what is read, whatever the class; presence included."""
    data = encode(message)
    again = decode(type(message), data)
    assert again == message
    assert hash(again) == hash(message)
    assert {name for name, value in vars(message).items() if value != ()} == set(vars(again))
    assert encode(again) == data
    assert read_delimited(b"ab" + encode_delimited(message) + b"cd", 2) == (data, 2 + len(encode_delimited(message)))


@settings(max_examples=300)
@given(st.sampled_from(["application_master.AllocateResponse", "rpc.RpcResponseHeader"]), st.binary(max_size=200))
def test_garbage_is_refused_or_read(name: str, data: bytes) -> None:
    """Any bytes are either a message, or no message; there is no third way."""
    cls = message_class(name)
    try:
        message = decode(cls, data)
    except MalformedMessageError:
        return
    encode(message)


@settings(max_examples=300)
@given(ANY_MESSAGE, st.data())
def test_damaged_messages_are_refused_or_read(message: ProtoMessage, data: st.DataObject) -> None:
    """One changed, lost or added byte does no more than that."""
    whole = encode(message)
    at = data.draw(st.integers(0, len(whole)))
    changed = whole[:at] + data.draw(st.binary(max_size=2)) + whole[at + data.draw(st.integers(0, 2)) :]
    try:
        encode(decode(type(message), changed))
    except MalformedMessageError:
        pass


@settings(max_examples=100)
@given(messages(Everything), st.integers(100, 1 << 28), st.binary(max_size=9), st.integers(0, 1 << 64))
def test_unknown_fields_are_skipped(message: ProtoMessage, number: int, data: bytes, value: int) -> None:
    """Fields of later versions do no harm, whatever their type."""
    if number == 2047:
        number += 1
    key = number << 3
    alien = (
        varint(key) + varint(value & (1 << 64) - 1)
        + varint(key | 2) + varint(len(data)) + data
        + varint(key | 1) + bytes(8)
        + varint(key | 5) + bytes(4)
    )  # fmt: skip
    assert decode(Everything, alien + encode(message) + alien) == message


def test_absent_is_none_or_the_default() -> None:
    """Absent and present can be told apart, and read alike."""
    absent, given_ = Everything(), Everything(with_default=-7)
    assert (absent.int32, absent.numbers, absent.with_default) == (None, (), -7)
    assert absent == given_
    assert [bool(encode(each)) for each in (absent, given_)] == [False, True]
    assert not encode(Everything(int32=None))
    assert ResourceRequest().relax_locality is True


def test_unknown_members_of_enums_read_as_absent() -> None:
    """proto2's enums are closed: a member of a later version is no member."""
    assert decode(Everything, bytes.fromhex("5805")).enum is None
    assert decode(Everything, bytes.fromhex("7005 7001 70ac02")).enums == (Colour.RED, Colour.BLUE)


def test_a_message_given_twice_is_one() -> None:
    """The second adds to the first, as protobuf says; of single values the last counts."""
    twice = decode(Everything, bytes.fromhex("0801 6205 0801 120161 6203 120162 0802"))
    assert twice == Everything(int32=2, message=Inner(number=1, names=("a", "b")))


def test_required_fields() -> None:
    """Without them there is no message, neither made nor read."""

    class Needy(ProtoMessage):
        name: str = required(1, STRING)
        more: int | None = optional(2, INT32)

    with pytest.raises(TypeError, match="Needy needs name"):
        Needy(more=1)  # type: ignore[call-arg]
    with pytest.raises(MalformedMessageError, match="Needy lacks the required field name"):
        decode(Needy, bytes.fromhex("1001"))


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ({"int32": 1 << 31}, "Everything.int32 .int32.*integer between -2147483648 and"),
        ({"uint32": -1}, "Everything.uint32 .* between 0 and 4294967295"),
        ({"sint32": 1 << 31}, "Everything.sint32"),
        ({"int64": 1.5}, "Everything.int64 .* integer"),
        ({"string": b"x"}, "Everything.string .* must be text"),
        ({"string": "\ud800"}, "Everything.string"),
        ({"raw": "x"}, "Everything.raw .* must be bytes"),
        ({"single": 1e300}, "Everything.single"),
        ({"enum": 7}, "Everything.enum"),
        ({"message": NodeId()}, "Everything.message must be a Inner, not a NodeId"),
        ({"numbers": ("x",)}, "Everything.numbers"),
    ],
)
def test_values_that_a_field_cannot_hold(given_: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        encode(Everything(**given_))


def test_fields_that_there_are_not() -> None:
    """A misspelt field is no silent loss."""
    with pytest.raises(TypeError, match="NodeId has no field hots"):
        NodeId(hots="a")  # type: ignore[call-arg]


def test_messages_are_immutable_and_can_be_keys() -> None:
    node = NodeId(host="a", port=1)
    with pytest.raises(AttributeError, match=r"NodeId\.host cannot be changed"):
        node.host = "b"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        delattr(node, "host")
    assert {node: 1}[NodeId(host="a", port=1)] == 1
    assert node != NodeId(host="a", port=2)
    assert node != Inner(number=1)
    assert replace(node, port=2) == NodeId(host="a", port=2)
    assert replace(node, port=None) == NodeId(host="a")


def test_the_text_of_a_message_shows_no_secret() -> None:
    """Tokens get into logs by their text."""
    shown = repr(Token(identifier=b"who", password=b"hush", kind="NMToken", service="a:1"))
    assert shown == "Token(identifier=<3 bytes>, password=<4 bytes>, kind='NMToken', service='a:1')"
    assert "hush" not in repr(Everything(messages=(Inner(names=("a",)),), raw=b"hush"))


def test_text_that_is_no_utf_8_is_read_all_the_same() -> None:
    """One wrong byte in a diagnostic must not hide an exit code."""
    assert decode(Everything, bytes.fromhex("4a03 61ff62")).string == "a\ufffdb"


def test_numbers_that_are_not_numbers() -> None:
    """They are floats like others."""
    assert math.isnan(decode(Everything, encode(Everything(single=math.nan))).single or 0)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("08", "in the middle"),
        ("08 80", "in the middle"),
        ("08 ffffffffffffffffffff01", "longer than ten bytes"),
        ("4a 05 61", "longer than its enclosing message"),
        ("62 02 08", "longer than its enclosing message"),
        ("62 01 08 01", "in the middle"),
        ("3d 0000", "in the middle"),
        ("00 00", "field number: 0"),
        ("0e", "wire type 6"),
        ("0f", "wire type 7"),
        ("0c", "wire type 4"),
        ("a306", "wire type 3"),
        ("a206 05 61", "longer than its enclosing message"),
        ("a506 0000", "in the middle"),
    ],
)
def test_bytes_that_are_no_message(data: str, said: str) -> None:
    with pytest.raises(MalformedMessageError, match=said):
        decode(Everything, bytes.fromhex(data))


def test_depth_is_bounded() -> None:
    """A chain of messages does not overflow the stack."""
    chain = SerializedException(message="root")
    for _ in range(MAX_DEPTH - 1):
        chain = SerializedException(cause=chain)
    assert decode(SerializedException, encode(chain)) == chain
    with pytest.raises(MalformedMessageError, match="100 messages deep"):
        decode(SerializedException, encode(SerializedException(cause=chain)))


def test_sizes_are_bounded() -> None:
    """Few bytes do not become many objects without end."""
    with pytest.raises(MalformedMessageError, match=f"more than {MAX_REPEATED} values of Everything.numbers"):
        decode(Everything, b"\x68\x01" * (MAX_REPEATED + 1))


def test_delimited_messages_that_did_not_come_whole() -> None:
    """The length says more than there is."""
    with pytest.raises(MalformedMessageError, match="only 1 bytes were received"):
        read_delimited(b"\x05a")
    with pytest.raises(MalformedMessageError, match="in the length prefix"):
        read_delimited(b"\x85")
