"""Read Java's object serialization into plain values: no class is looked up, no code is run.

Grammar: Java Object Serialization Specification, chapter 6. Supported are the parts that occur in the index of
aggregated logs: objects with fields, strings, references, enums, and data added by a class's `writeObject`.
Everything else is refused; the numbers of objects, levels and bytes are bounded.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any, NoReturn

from tony.hadoop.logs.log_files import MalformedLogFileError

MAGIC = b"\xac\xed\x00\x05"
_NULL = 0x70
_REFERENCE = 0x71
_CLASS_DESCRIPTION = 0x72
_FIRST_HANDLE = 0x7E0000
#: Flags of a class: has data besides its fields, has fields, writes its own format, is an enum.
_WROTE_MORE = 1
_SERIALIZABLE = 2
_EXTERNALIZABLE = 4
_IS_ENUM = 16

#: Of a node's index: some five objects for each log file.
MAX_OBJECTS = 500_000
_MAX_DEPTH = 40
_MAX_FIELDS = 200

_PRIMITIVES = {
    "B": struct.Struct(">b"),
    "C": struct.Struct(">H"),
    "D": struct.Struct(">d"),
    "F": struct.Struct(">f"),
    "I": struct.Struct(">i"),
    "J": struct.Struct(">q"),
    "S": struct.Struct(">h"),
    "Z": struct.Struct(">?"),
}


@dataclass(slots=True, kw_only=True)
class JavaClass:
    """Description of a class in a stream.

    Attributes:
        name: in full, with a dollar sign before inner ones.
        flags: what it wrote.
        fields: name and type code, in the order of the stream.
        parent: the class above, if it is serializable.
    """

    name: str
    flags: int = 0
    fields: tuple[tuple[str, str], ...] = ()
    parent: JavaClass | None = None


@dataclass(slots=True, kw_only=True)
class JavaObject:
    """One object.

    Attributes:
        type: its class.
        fields: by name, of all classes up to the root.
        more: what `writeObject` of a class added, by class name: blocks of bytes and values, in order.
    """

    type: JavaClass
    fields: dict[str, Any] = field(default_factory=dict)
    more: dict[str, list[Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaEnum:
    """One constant of an enum.

    Attributes:
        type: name of the enum's class.
    """

    type: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """Bytes that `writeObject` of a class wrote itself."""

    data: bytes


class _BlockEnd:
    """Marks the end of what `writeObject` added."""


_END_MARK = _BlockEnd()


def load(data: bytes) -> Any:
    """Return the one value that the bytes are: JavaObject, JavaEnum, str or None.

    Raises:
        MalformedLogFileError: no Java serialization, or parts of it that are not understood here.
    """
    reader = _JavaReader(data)
    if reader.take(4) != MAGIC:
        _refuse("does not begin as Java's serialization does")
    value = reader.read_value(0)
    if reader.at != len(data):
        _refuse(f"has {len(data) - reader.at} bytes behind its value")
    return value


def _refuse(what: str) -> NoReturn:
    raise MalformedLogFileError(f"has an index that {what}")


class _JavaReader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0
        self._handles: list[Any] = []

    def take(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self._data):
            _refuse("is cut off")
        taken = self._data[self.at : end]
        self.at = end
        return taken

    def _read_byte(self) -> int:
        return self.take(1)[0]

    def _read_short(self) -> int:
        return int.from_bytes(self.take(2), "big")

    def _read_int(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def _read_text(self, size: int) -> str:
        # Java's own UTF-8 writes a zero in two bytes and surrogates in three each: no log file's name has them.
        return self.take(size).decode("utf-8", "replace")

    def _remember(self, value: Any) -> int:
        if len(self._handles) >= MAX_OBJECTS:
            _refuse(f"has more than {MAX_OBJECTS} objects")
        self._handles.append(value)
        return len(self._handles) - 1

    def read_content(self, depth: int) -> Any:
        """Read one value of any type."""
        if depth > _MAX_DEPTH:
            _refuse(f"is nested more than {_MAX_DEPTH} deep")
        kind = self._read_byte()
        match kind:
            case 0x70:  # null
                return None
            case 0x71:
                return self._read_reference()
            case 0x73:
                return self._read_object(depth)
            case 0x74:
                return self._read_string()
            case 0x77:
                return Added(data=self.take(self._read_byte()))
            case 0x78:
                return _END_MARK
            case 0x7E:
                return self._enum(depth)
        _refuse(f"holds a part of kind {kind:#x} at byte {self.at - 1}, which is not understood here")

    def read_value(self, depth: int) -> Any:
        """Return a value where an object belongs: the whole, a field, an element."""
        value = self.read_content(depth)
        if value is _END_MARK or isinstance(value, Added):
            _refuse("has bytes where an object belongs")
        return value

    def _read_string(self) -> str:
        text = self._read_text(self._read_short())
        self._remember(text)
        return text

    def _read_reference(self) -> Any:
        number = self._read_int() - _FIRST_HANDLE
        if not 0 <= number < len(self._handles):
            _refuse("refers to an object that is not there")
        value = self._handles[number]
        if isinstance(value, JavaClass):
            _refuse("has a class where an object belongs")
        return value

    def _read_class(self, depth: int) -> JavaClass | None:
        """Return a description of a class, or a reference to one, or none."""
        if depth > _MAX_DEPTH:
            _refuse("has classes nested too deep")
        kind = self._read_byte()
        if kind == _NULL:
            return None
        if kind == _REFERENCE:
            number = self._read_int() - _FIRST_HANDLE
            found = self._handles[number] if 0 <= number < len(self._handles) else None
            if not isinstance(found, JavaClass):
                _refuse("refers to a class that is not there")
            return found
        if kind != _CLASS_DESCRIPTION:
            _refuse(f"describes a class in a way ({kind:#x}) that is not understood here")
        return self._read_class_description(depth)

    def _read_class_description(self, depth: int) -> JavaClass:
        described = JavaClass(name=self._read_text(self._read_short()))
        self.take(8)  # the class's version, which is not needed
        self._remember(described)
        described.flags = self._read_byte()
        count = self._read_short()
        if count > _MAX_FIELDS:
            _refuse(f"has a class with {count} fields")
        described.fields = tuple(self._read_field(depth) for _ in range(count))
        while (annotation := self.read_content(depth + 1)) is not _END_MARK:
            if not isinstance(annotation, Added):
                _refuse("has a class with annotations")
        described.parent = self._read_class(depth + 1)
        return described

    def _read_field(self, depth: int) -> tuple[str, str]:
        code = chr(self._read_byte())
        name = self._read_text(self._read_short())
        if code == "L":
            if not isinstance(self.read_value(depth + 1), str):
                _refuse("has a field whose type is no text")
        elif code not in _PRIMITIVES:
            _refuse(f"has a field of type {code!r}")
        return name, code

    def _read_object(self, depth: int) -> JavaObject:
        described = self._read_class(depth + 1)
        if described is None:
            _refuse("has an object without a class")
        made = JavaObject(type=described)
        self._remember(made)
        for one in _from_the_top(described):
            if one.flags & _EXTERNALIZABLE or not one.flags & _SERIALIZABLE:
                _refuse(f"holds an object of {one.name!r:.100}, which wrote itself in a way of its own")
            for name, code in one.fields:
                made.fields[name] = self._read_field_value(code, depth)
            if one.flags & _WROTE_MORE:
                made.more[one.name] = self._read_more(depth)
        return made

    def _read_field_value(self, code: str, depth: int) -> Any:
        layout = _PRIMITIVES.get(code)
        if layout is None:
            return self.read_value(depth + 1)
        return layout.unpack(self.take(layout.size))[0]

    def _read_more(self, depth: int) -> list[Any]:
        found = []
        while (value := self.read_content(depth + 1)) is not _END_MARK:
            found.append(value)
        return found

    def _enum(self, depth: int) -> JavaEnum:
        described = self._read_class(depth + 1)
        if described is None or not described.flags & _IS_ENUM:
            _refuse("has an enum without a class")
        slot = self._remember(None)
        name = self.read_value(depth + 1)
        if not isinstance(name, str):
            _refuse("has an enum whose constant has no name")
        made = JavaEnum(type=described.name, name=name)
        self._handles[slot] = made
        return made


def _from_the_top(described: JavaClass) -> list[JavaClass]:
    """Return a class and those above it, the topmost first: the order in which they wrote their fields."""
    found: list[JavaClass] = []
    one: JavaClass | None = described
    while one is not None:
        if len(found) > _MAX_DEPTH:
            _refuse("has classes nested too deep")
        found.insert(0, one)
        one = one.parent
    return found


def to_list(value: Any) -> list[Any]:
    """Return the elements of a Java list.

    Raises:
        MalformedLogFileError: not an ArrayList or the like.
    """
    if isinstance(value, JavaObject) and value.type.name in ("java.util.ArrayList", "java.util.LinkedList"):
        return _parse_elements(value, 1)
    _refuse("has something else where a list belongs")


def to_pairs(value: Any) -> list[tuple[Any, Any]]:
    """Return the entries of a Java map.

    Raises:
        MalformedLogFileError: not a HashMap or the like.
    """
    names = ("java.util.HashMap", "java.util.LinkedHashMap", "java.util.TreeMap", "java.util.Hashtable")
    if isinstance(value, JavaObject) and value.type.name in names:
        flat = _parse_elements(value, 2)
        return list(zip(flat[::2], flat[1::2], strict=True))
    _refuse("has something else where a map belongs")


def _parse_elements(value: JavaObject, each: int) -> list[Any]:
    """Parse a collection: bytes that end with its size (of a list: its capacity), then the elements."""
    found = [item for part in value.more.values() for item in part]
    plain = [item for item in found if not isinstance(item, Added)]
    if len(found) - len(plain) != 1 or not isinstance(found[0], Added) or len(plain) % each:
        _refuse("has a collection that is damaged")
    declared = value.fields.get("size", int.from_bytes(found[0].data[-4:], "big"))
    if declared * each != len(plain):
        _refuse("has a collection that is damaged")
    return plain
