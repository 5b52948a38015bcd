"""proto2, as far as Hadoop uses it: messages as classes, and their bytes.

    class NodeId(Message):
        host: str | None = optional(1, STRING)
        port: int | None = optional(2, INT32)

    data = encode(NodeId(host="node-1", port=45454))
    assert decode(NodeId, data).host == "node-1"

Hadoop's messages are some hundred, and all of one simple kind; the field numbers are facts of Hadoop's protocol. This
is no general protobuf: groups and extensions are skipped, maps are lists of pairs, as proto2 has them.

What is given to a constructor is *present*, and is written, be it the default or not; `None` means absent. An absent
field reads as its default, or None; an absent repeated one as (). Messages are immutable, compare by what their fields
read as, and can be keys. Enums are closed: a number that we do not know reads as absent. Their text shows no bytes,
for these are mostly passwords.

Nothing is computed when a class is made (a program of ours imports hundreds and uses twenty): the plan of its fields is
drawn up when the class is first used, and read by one loop for all classes.

Wire format: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Any, ClassVar, Final, TypeVar, cast, dataclass_transform

from tony.errors import InfraError

#: More than any answer of Hadoop's may have (`ipc.maximum.response.length`).
MAX_SIZE: Final = 128 << 20
#: Messages in messages; Hadoop's deepest is some ten.
MAX_DEPTH: Final = 100
#: Values of one repeated field. An empty message takes two bytes on the wire, and some hundred here.
MAX_REPEATED: Final = 1 << 20

_MASK64: Final = (1 << 64) - 1
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_START_GROUP, _END_GROUP = 3, 4


class MalformedMessage(InfraError):  # noqa: N818 - a noun reads better where it is raised
    """Bytes that are no message of the type that they claim to be."""


class FieldKind:
    """How the values of a field are written.

    Attributes:
        name: for messages to people.
        wire: the number of protobuf's wire type.
        write: from the value to what is written (a number for varints, else bytes); ValueError says what is wanted.
        read: the other direction, or None if the number on the wire is the value.
        small: whether a number below 128 must be read, too.
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


def _within(low: int, high: int) -> Callable[[Any], int]:
    def checked(value: Any) -> int:
        if not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"a whole number between {low} and {high} is wanted")
        return int(value) & _MASK64

    return checked


def _int32(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def _int64(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _zigzag(value: int) -> int:
    _within(-(1 << 31), (1 << 31) - 1)(value)
    return (value << 1 ^ value >> 31) & 0xFFFFFFFF


def _utf8(value: Any) -> bytes:
    if not isinstance(value, str):
        raise ValueError("text is wanted")
    return value.encode()


def _raw(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("bytes are wanted")
    return value


INT32: Final = FieldKind("int32", _VARINT, _within(-(1 << 31), (1 << 31) - 1), _int32)
INT64: Final = FieldKind("int64", _VARINT, _within(-(1 << 63), (1 << 63) - 1), _int64)
UINT32: Final = FieldKind("uint32", _VARINT, _within(0, (1 << 32) - 1), lambda value: value & 0xFFFFFFFF)
UINT64: Final = FieldKind("uint64", _VARINT, _within(0, _MASK64), None)
SINT32: Final = FieldKind(
    "sint32", _VARINT, _zigzag, lambda value: _int32((value & 0xFFFFFFFF) >> 1 ^ -(value & 1)), small=True
)
BOOL: Final = FieldKind("bool", _VARINT, _within(0, 1), bool, small=True)
FLOAT: Final = FieldKind("float", _FOUR, struct.Struct("<f").pack, lambda data: struct.unpack("<f", data)[0])
DOUBLE: Final = FieldKind("double", _EIGHT, struct.Struct("<d").pack, lambda data: struct.unpack("<d", data)[0])
STRING: Final = FieldKind("string", _BYTES, _utf8, None)
BYTES: Final = FieldKind("bytes", _BYTES, _raw, None)


def ENUM(members: type[IntEnum]) -> FieldKind:  # noqa: N802 - one of the kinds
    """A closed enum."""
    known = {int(member) & _MASK64: member for member in members}
    return FieldKind(members.__name__, _VARINT, lambda value: members(value) & _MASK64, known.get, small=True)


class Field:
    """What a class body says of a field; the class has its default in this place once it is used."""

    __slots__ = ("default", "kind", "number", "repeated", "required")

    def __init__(self, number: int, kind: Any, default: Any, *, repeated: bool = False, required: bool = False) -> None:
        self.number, self.kind, self.default, self.repeated, self.required = number, kind, default, repeated, required


def optional(number: int, kind: Any, default: Any = None) -> Any:
    """A field that may be absent.

    Args:
        number: the field's number.
        kind: INT32 and the like, a class of messages, or a function that answers one (for a class made later).
        default: what an absent field reads as.
    """
    return Field(number, kind, default)


def required(number: int, kind: Any) -> Any:
    """A field without which there is no message."""
    return Field(number, kind, None, required=True)


def repeated(number: int, kind: Any) -> Any:
    """A field with any number of values; a tuple."""
    return Field(number, kind, (), repeated=True)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(required,))
class ProtoMessage:
    """The base of all messages."""

    _plan: ClassVar[_Plan | None] = None

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

    def has(self, name: str) -> bool:
        """Whether a field is present, be it with its default."""
        return name in self.__dict__

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
        shown = (f"{name}={_shown(value)}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({', '.join(shown)})"


AnyMessage = TypeVar("AnyMessage", bound=ProtoMessage)


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, tuple):
        return f"({', '.join(map(_shown, value))})"
    return repr(value)


def replace(message: AnyMessage, **changes: Any) -> AnyMessage:
    """A copy in which some fields are other ones; None takes a field away."""
    return type(message)(**{**message.__dict__, **changes})


# What the loops do with a field. The order is the one in which they are asked for.
_PLAIN, _READ, _MESSAGE, _STRING, _RAW, _FIXED, _PACKED = range(7)


class _Plan:
    """What the loops know of a class."""

    __slots__ = ("by_key", "fields", "names", "repeated", "required")

    def __init__(self, cls: type[ProtoMessage]) -> None:
        mine = {name: field for name, field in cls.__dict__.items() if isinstance(field, Field)}
        self.names = tuple(mine)
        self.required = tuple(name for name, field in mine.items() if field.required)
        self.repeated = frozenset(name for name, field in mine.items() if field.repeated)
        #: What stands before a value on the wire -> (what to do, name, class or reader, whether repeated).
        self.by_key: dict[int, tuple[int, str, Any, bool]] = {}
        #: In the order of their numbers: name, key as bytes, class or kind, whether repeated.
        self.fields: list[tuple[str, bytes, Any, bool]] = []
        for name, field in sorted(mine.items(), key=lambda item: item[1].number):
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
        if many and wire != _BYTES:
            self.by_key[field.number << 3 | _BYTES] = (_PACKED, name, kind, many)


def _plan_of(cls: type[ProtoMessage]) -> _Plan:
    plan = _Plan(cls)
    cls._plan = plan
    return plan


def varint(value: int) -> bytes:
    """A number that is not negative, seven bits in a byte."""
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
    """The bytes of a message, fields in the order of their numbers.

    Raises:
        ValueError: a value that its field cannot hold; says which.
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
                    raise ValueError(f"{cls.__name__}.{name} is a {kind.__name__}, not {type(value).__name__}")
                data = encode(value)
                out += varint(len(data))
                out += data
                continue
            try:
                data = kind.write(value)
            except (ValueError, TypeError, struct.error, OverflowError) as error:
                raise ValueError(f"{cls.__name__}.{name} ({kind.name}) cannot be this: {error}") from None
            if kind.wire == _VARINT:
                out += varint(cast(int, data))
            else:
                if kind.wire == _BYTES:
                    out += varint(len(data))
                out += data
    return bytes(out)


def decode(cls: type[AnyMessage], data: bytes) -> AnyMessage:
    """The message that some bytes hold. Fields that are not known are skipped.

    Raises:
        MalformedMessage: these are no bytes of such a message.
    """
    if len(data) > MAX_SIZE:
        raise MalformedMessage(f"a {cls.__name__} of {len(data)} bytes; {MAX_SIZE} are the most that is read")
    message = cls.__new__(cls)
    try:
        _fill(cls, message.__dict__, data, 0, len(data), MAX_DEPTH)
    except IndexError:
        raise MalformedMessage(f"a {cls.__name__} that ends in the middle of a field") from None
    return message


def _fill(cls: type[ProtoMessage], values: dict[str, Any], data: bytes, at: int, end: int, depth: int) -> None:
    """Reads the fields between two places into `values`. Long for a reason: calls are what takes time here."""
    if not depth:
        raise MalformedMessage(f"a {cls.__name__} lies more than {MAX_DEPTH} messages deep")
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
            at = _skip(cls, data, at, end, key, depth)
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
                    raise MalformedMessage(f"{cls.__name__}.{name} is longer than what it lies in")
                if what == _MESSAGE:
                    fresh = None if many else values.get(name)  # given twice: the second adds to the first
                    value = fresh or extra.__new__(extra)
                    _fill(extra, value.__dict__, data, start, at, depth - 1)
                elif what == _STRING:
                    value = data[start:at].decode("utf-8", "replace")
                else:
                    value = data[start:at]
                    if what == _PACKED:
                        _add(cls, values, name, _unpacked(cls, name, extra, value))
                        continue
            elif what == _READ:
                value = extra(value)
                if value is None:
                    continue  # a member of an enum that we do not know
        else:
            size = 4 if extra.wire == _FOUR else 8
            value = extra.read(data[at : at + size]) if at + size <= end else None
            at += size
        if many:
            _add(cls, values, name, (value,))
        else:
            values[name] = value
    if at != end:
        raise MalformedMessage(f"a {cls.__name__} that ends in the middle of a field")
    for name in plan.repeated:
        if name in values:
            values[name] = tuple(values[name])
    for name in plan.required:
        if name not in values:
            raise MalformedMessage(f"a {cls.__name__} without its {name}")


def _add(cls: type[ProtoMessage], values: dict[str, Any], name: str, new: Iterable[Any]) -> None:
    """While a message is read, its repeated fields are lists."""
    items = values.get(name)
    if type(items) is not list:
        items = values[name] = list(items or ())
    items.extend(new)
    if len(items) > MAX_REPEATED:
        raise MalformedMessage(f"more than {MAX_REPEATED} of {cls.__name__}.{name}")


def _unpacked(cls: type[ProtoMessage], name: str, kind: FieldKind, data: bytes) -> list[Any]:
    """The values of a repeated field that were written into one piece; every reader must take that."""
    values = []
    at = 0
    if kind.wire == _VARINT:
        while at < len(data):
            number, at = read_varint(data, at)
            values.append(number if kind.read is None else kind.read(number))
        return [value for value in values if value is not None]
    size = 4 if kind.wire == _FOUR else 8
    if len(data) % size:
        raise MalformedMessage(f"{cls.__name__}.{name} ends in the middle of a number")
    read = cast(Callable[[bytes], Any], kind.read)
    return [read(data[at : at + size]) for at in range(0, len(data), size)]


def _skip(cls: type[ProtoMessage], data: bytes, at: int, end: int, key: int, depth: int) -> int:
    """The place behind a field that is not known."""
    wire = key & 7
    if key >> 3 == 0 or key >> 3 >= 1 << 29:
        raise MalformedMessage(f"a {cls.__name__} with a field of number {key >> 3}")
    if wire == _VARINT:
        return read_varint(data, at)[1]
    if wire == _BYTES:
        size, at = read_varint(data, at)
        if at + size > end:
            raise MalformedMessage(f"field {key >> 3} of a {cls.__name__} is longer than what it lies in")
        return at + size
    if wire in (_FOUR, _EIGHT):
        return at + (4 if wire == _FOUR else 8)
    if wire == _START_GROUP and depth:
        closing = key >> 3 << 3 | _END_GROUP
        while True:
            inner, at = read_varint(data, at)
            if inner == closing:
                return at
            at = _skip(cls, data, at, end, inner, depth - 1)
    raise MalformedMessage(f"field {key >> 3} of a {cls.__name__} has wire type {wire}")


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of at most 64 bits, and the place behind it.

    Raises:
        IndexError: the data end before the number does.
        MalformedMessage: it is longer than ten bytes.
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
            raise MalformedMessage("a number of more than ten bytes")


def delimited(message: ProtoMessage) -> bytes:
    """A message with its length before it."""
    data = encode(message)
    return varint(len(data)) + data


def read_delimited(data: bytes, offset: int = 0) -> tuple[bytes, int]:
    """The bytes of the message that starts with its length at `offset`, and the place behind it.

    Raises:
        MalformedMessage: the data end before the message does.
    """
    try:
        size, start = read_varint(data, offset)
    except IndexError:
        raise MalformedMessage("the data end where a message's length should be") from None
    if start + size > len(data):
        raise MalformedMessage(f"a message of {size} bytes of which only {len(data) - start} came")
    return data[start : start + size], start + size


def pairs(entries: Mapping[str, Any], entry: Callable[..., AnyMessage]) -> tuple[AnyMessage, ...]:
    """A map as proto2 has it: messages with `key` and `value`, in the order of the keys."""
    return tuple(entry(key=key, value=entries[key]) for key in sorted(entries))
