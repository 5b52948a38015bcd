"""The subset of proto2 that Hadoop uses: messages as classes, encoded to and decoded from bytes.

    class NodeId(Message):
        host: str | None = optional(1, STRING)
        port: int | None = optional(2, INT32)

    data = encode(NodeId(host="node-1", port=45454))
    assert decode(NodeId, data).host == "node-1"

Hadoop has about a hundred messages, all simple; the field numbers come from Hadoop's protocol files. This is not a
general protobuf library: numbers are not packed, groups are refused, and maps are lists of pairs, as in proto2.

A value passed to a constructor is *present* and is written even if it equals the default; `None` means absent. An
absent field reads as its default, or None; an absent repeated field reads as (). Messages are immutable and hashable,
and compare by the values of their fields. Enums are closed: an unknown number reads as absent. `repr` hides the content
of bytes fields, which are mostly passwords.

The plan of a class's fields is built on first use, not at import: a process imports hundreds of classes and uses about
twenty. One loop reads the plans of all classes.

Wire format: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Any, ClassVar, Final, TypeVar, cast, dataclass_transform

from tony.errors import InfraError

#: Bytes; larger than any Hadoop response may be (`ipc.maximum.response.length`).
MAX_SIZE: Final = 128 << 20
#: Nesting depth; Hadoop's deepest message has about ten levels.
MAX_DEPTH: Final = 100
#: Values of one repeated field. An empty message takes two bytes on the wire and about a hundred in memory.
MAX_REPEATED: Final = 1 << 20

_MASK64: Final = (1 << 64) - 1
_VARINT = 0
_EIGHT = 1
_BYTES = 2
_FOUR = 5


class MalformedMessageError(InfraError):
    """Bytes that are not a valid message of the expected type."""


class FieldKind:
    """The encoding of a field's values.

    Attributes:
        name: used in error messages.
        wire: protobuf wire type.
        write: encodes a value (to a number for varints, else to bytes); raises ValueError for an invalid value.
        read: decodes a value; None if the number on the wire is the value.
        small: whether `read` must also be applied to numbers below 128.
    """

    __slots__ = ("name", "read", "small", "wire", "write")

    def __init__(
        self,
        name: str,
        wire: int,
        write: Callable[[Any], Any],
        read: Callable[[Any], Any] | None,
        *,
        small: bool = False,
    ) -> None:
        self.name, self.wire, self.write, self.read, self.small = name, wire, write, read, small


def _make_range_check(low: int, high: int) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        if not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"must be an integer between {low} and {high}")
        return int(value) & _MASK64

    return check


def _int32(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def _int64(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _zigzag(value: int) -> int:
    _make_range_check(-(1 << 31), (1 << 31) - 1)(value)
    return (value << 1 ^ value >> 31) & 0xFFFFFFFF


def _utf8(value: Any) -> bytes:
    if not isinstance(value, str):
        raise ValueError("must be text")
    return value.encode()


def _raw(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("must be bytes")
    return value


INT32: Final = FieldKind("int32", _VARINT, _make_range_check(-(1 << 31), (1 << 31) - 1), _int32)
INT64: Final = FieldKind("int64", _VARINT, _make_range_check(-(1 << 63), (1 << 63) - 1), _int64)
UINT32: Final = FieldKind("uint32", _VARINT, _make_range_check(0, (1 << 32) - 1), lambda value: value & 0xFFFFFFFF)
UINT64: Final = FieldKind("uint64", _VARINT, _make_range_check(0, _MASK64), None)
SINT32: Final = FieldKind(
    "sint32", _VARINT, _zigzag, lambda value: _int32((value & 0xFFFFFFFF) >> 1 ^ -(value & 1)), small=True
)
BOOL: Final = FieldKind("bool", _VARINT, _make_range_check(0, 1), bool, small=True)
FLOAT: Final = FieldKind("float", _FOUR, struct.Struct("<f").pack, lambda data: struct.unpack("<f", data)[0])
STRING: Final = FieldKind("string", _BYTES, _utf8, None)
BYTES: Final = FieldKind("bytes", _BYTES, _raw, None)


def ENUM(members: type[IntEnum]) -> FieldKind:  # noqa: N802 - named like the other kinds
    """Return the field kind of a closed enum."""
    known = {int(member) & _MASK64: member for member in members}
    return FieldKind(members.__name__, _VARINT, lambda value: members(value) & _MASK64, known.get, small=True)


class Field:
    """The declaration of a field in a class body; replaced by the field's default when the class is first used."""

    __slots__ = ("default", "kind", "number", "repeated", "required")

    def __init__(self, number: int, kind: Any, default: Any, *, repeated: bool = False, required: bool = False) -> None:
        self.number, self.kind, self.default, self.repeated, self.required = number, kind, default, repeated, required


def optional(number: int, kind: Any, default: Any = None) -> Any:
    """Declare a field that may be absent.

    Args:
        kind: a field kind such as INT32, a message class, or a function that returns one (for a class defined later).
        default: value of an absent field.
    """
    return Field(number, kind, default)


def required(number: int, kind: Any) -> Any:
    """Declare a field that must be present."""
    return Field(number, kind, None, required=True)


def repeated(number: int, kind: Any) -> Any:
    """Declare a field with any number of values; it reads as a tuple."""
    return Field(number, kind, (), repeated=True)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(required,))
class ProtoMessage:
    """The base class of all messages."""

    _plan: ClassVar[_FieldTable | None] = None

    def __init__(self, **given: Any) -> None:
        plan = type(self)._plan or _plan_of(type(self))
        values = self.__dict__
        for name, value in given.items():
            if name not in plan.names:
                raise TypeError(f"{type(self).__name__} has no field {name}")
            if name in plan.repeated:
                value = tuple(value)
            if value is not None:
                values[name] = value
        for name in plan.required:
            if name not in values:
                raise TypeError(f"{type(self).__name__} needs {name}")

    def __setattr__(self, name: str, value: Any = None) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed: messages are immutable")

    __delattr__ = cast(Any, __setattr__)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        if self.__dict__ == other.__dict__:
            return True
        names = (type(self)._plan or _plan_of(type(self))).names
        return all(getattr(self, name) == getattr(other, name) for name in names)

    def __hash__(self) -> int:
        names = (type(self)._plan or _plan_of(type(self))).names
        return hash(tuple(getattr(self, name) for name in names))

    def __repr__(self) -> str:
        shown = (f"{name}={_format_value(value)}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({', '.join(shown)})"


AnyMessage = TypeVar("AnyMessage", bound=ProtoMessage)


def _format_value(value: Any) -> str:
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, tuple):
        return f"({', '.join(map(_format_value, value))})"
    return repr(value)


def replace(message: AnyMessage, **changes: Any) -> AnyMessage:
    """Return a copy with some fields changed; None removes a field."""
    return type(message)(**{**message.__dict__, **changes})


# How a field is decoded; the comparisons in `_fill` depend on the order.
_PLAIN, _READ, _MESSAGE, _STRING, _RAW, _FIXED = range(6)


class _FieldTable:
    """The fields of a message class, prepared for encoding and decoding."""

    __slots__ = ("by_key", "fields", "names", "repeated", "required")

    def __init__(self, cls: type[ProtoMessage]) -> None:
        own_fields = {name: field for name, field in cls.__dict__.items() if isinstance(field, Field)}
        self.names = tuple(own_fields)
        self.required = tuple(name for name, field in own_fields.items() if field.required)
        self.repeated = frozenset(name for name, field in own_fields.items() if field.repeated)
        #: Key on the wire -> (how to decode, name, class or reader, whether repeated).
        self.by_key: dict[int, tuple[int, str, Any, bool]] = {}
        #: By field number: name, key as bytes, class or kind, whether repeated.
        self.fields: list[tuple[str, bytes, Any, bool]] = []
        for name, field in sorted(own_fields.items(), key=lambda item: item[1].number):
            self._add(name, field)
            setattr(cls, name, field.default)

    def _add(self, name: str, field: Field) -> None:
        kind, many = field.kind, field.repeated
        if not isinstance(kind, FieldKind | type):
            kind = kind()
        wire = kind.wire if isinstance(kind, FieldKind) else _BYTES
        key = field.number << 3 | wire
        self.fields.append((name, varint(key), kind, many))
        if not isinstance(kind, FieldKind):
            self.by_key[key] = (_MESSAGE, name, kind, many)
        elif wire == _VARINT:
            self.by_key[key] = (_READ if kind.small else _PLAIN, name, kind.read, many)
        elif kind is STRING or kind is BYTES:
            self.by_key[key] = (_STRING if kind is STRING else _RAW, name, None, many)
        else:
            self.by_key[key] = (_FIXED, name, kind, many)


def _plan_of(cls: type[ProtoMessage]) -> _FieldTable:
    plan = _FieldTable(cls)
    cls._plan = plan
    return plan


def varint(value: int) -> bytes:
    """Encode a non-negative number as a varint."""
    if value < 0x80:
        return _SHORT[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SHORT: Final = tuple(bytes((number,)) for number in range(0x80))


def encode(message: ProtoMessage) -> bytes:
    """Encode a message, with its fields in the order of their numbers.

    Raises:
        ValueError: a field cannot hold its value; the message names the field.
    """
    cls = type(message)
    values = message.__dict__
    out = bytearray()
    for name, key, kind, many in (cls._plan or _plan_of(cls)).fields:
        if name not in values:
            continue
        for value in values[name] if many else (values[name],):
            out += key
            if not isinstance(kind, FieldKind):
                if type(value) is not kind:
                    raise ValueError(f"{cls.__name__}.{name} must be a {kind.__name__}, not a {type(value).__name__}")
                data = encode(value)
                out += varint(len(data))
                out += data
                continue
            try:
                data = kind.write(value)
            except (ValueError, TypeError, struct.error, OverflowError) as error:
                raise ValueError(f"{cls.__name__}.{name} ({kind.name}): invalid value: {error}") from None
            if kind.wire == _VARINT:
                out += varint(cast(int, data))
            else:
                if kind.wire == _BYTES:
                    out += varint(len(data))
                out += data
    return bytes(out)


def decode(cls: type[AnyMessage], data: bytes) -> AnyMessage:
    """Decode a message. Unknown fields are skipped.

    Raises:
        MalformedMessageError: the bytes are not such a message.
    """
    if len(data) > MAX_SIZE:
        raise MalformedMessageError(f"{cls.__name__} has {len(data)} bytes; the limit is {MAX_SIZE}")
    message = cls.__new__(cls)
    try:
        _fill(cls, message.__dict__, data, 0, len(data), MAX_DEPTH)
    except IndexError:
        raise MalformedMessageError(f"{cls.__name__} ends in the middle of a field") from None
    return message


def _fill(cls: type[ProtoMessage], values: dict[str, Any], data: bytes, at: int, end: int, depth: int) -> None:
    """Decode the fields in `data[at:end]` into `values`. One long function, because calls dominate the run time."""
    if not depth:
        raise MalformedMessageError(f"{cls.__name__} is nested more than {MAX_DEPTH} messages deep")
    plan = cls._plan or _plan_of(cls)
    known = plan.by_key
    value: Any
    while at < end:
        key = data[at]
        at += 1
        if key > 0x7F:
            key, at = read_varint(data, at - 1)
        entry = known.get(key)
        if entry is None:
            at = _skip(cls, data, at, end, key)
            continue
        what, name, extra, many = entry
        if what != _FIXED:
            value = data[at]
            at += 1
            if value > 0x7F:
                value, at = read_varint(data, at - 1)
                if what == _PLAIN and extra is not None:
                    value = extra(value)
            if what > _READ:
                start, at = at, at + value
                if at > end:
                    raise MalformedMessageError(f"{cls.__name__}.{name} is longer than its enclosing message")
                if what == _MESSAGE:
                    fresh = None if many else values.get(name)  # a repeated occurrence is merged into the first
                    value = fresh or extra.__new__(extra)
                    _fill(extra, value.__dict__, data, start, at, depth - 1)
                elif what == _STRING:
                    value = data[start:at].decode("utf-8", "replace")
                else:
                    value = data[start:at]
            elif what == _READ:
                value = extra(value)
                if value is None:
                    continue  # unknown enum value
        else:
            value = extra.read(data[at : at + 4]) if at + 4 <= end else None
            at += 4
        if many:
            _add(cls, values, name, value)
        else:
            values[name] = value
    if at != end:
        raise MalformedMessageError(f"{cls.__name__} ends in the middle of a field")
    for name in plan.repeated:
        if name in values:
            values[name] = tuple(values[name])
    for name in plan.required:
        if name not in values:
            raise MalformedMessageError(f"{cls.__name__} lacks the required field {name}")


def _add(cls: type[ProtoMessage], values: dict[str, Any], name: str, value: Any) -> None:
    """Append to a repeated field, which is a list while its message is decoded."""
    items = values.get(name)
    if type(items) is not list:
        items = values[name] = list(items or ())
    items.append(value)
    if len(items) > MAX_REPEATED:
        raise MalformedMessageError(f"more than {MAX_REPEATED} values of {cls.__name__}.{name}")


def _skip(cls: type[ProtoMessage], data: bytes, at: int, end: int, key: int) -> int:
    """Return the offset after an unknown field."""
    wire = key & 7
    if key >> 3 == 0 or key >> 3 >= 1 << 29:
        raise MalformedMessageError(f"{cls.__name__} has an invalid field number: {key >> 3}")
    if wire == _VARINT:
        return read_varint(data, at)[1]
    if wire == _BYTES:
        size, at = read_varint(data, at)
        if at + size > end:
            raise MalformedMessageError(f"field {key >> 3} of {cls.__name__} is longer than its enclosing message")
        return at + size
    if wire in (_FOUR, _EIGHT):
        return at + (4 if wire == _FOUR else 8)
    raise MalformedMessageError(f"field {key >> 3} of {cls.__name__} has the unsupported wire type {wire}")


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the varint at an offset (at most 64 bits), and the offset after it.

    Raises:
        IndexError: the data end in the middle of the varint.
        MalformedMessageError: the varint is longer than ten bytes.
    """
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _MASK64, at
        shift += 7
        if shift >= 70:
            raise MalformedMessageError("varint is longer than ten bytes")


def encode_delimited(message: ProtoMessage) -> bytes:
    """Encode a message, prefixed with its length."""
    data = encode(message)
    return varint(len(data)) + data


def read_delimited(data: bytes, offset: int = 0) -> tuple[bytes, int]:
    """Return the bytes of the length-prefixed message at `offset`, and the offset after it.

    Raises:
        MalformedMessageError: the data end in the middle of the message.
    """
    try:
        size, start = read_varint(data, offset)
    except IndexError:
        raise MalformedMessageError("the data end in the length prefix of a message") from None
    if start + size > len(data):
        raise MalformedMessageError(
            f"message of {size} bytes is truncated: only {len(data) - start} bytes were received"
        )
    return data[start : start + size], start + size
