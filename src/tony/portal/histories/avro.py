"""Reads Avro container files as untrusted input, within bounds.

The format: https://avro.apache.org/docs/1.12.0/specification/#object-container-files. Uncompressed blocks and those
compressed with deflate are supported; other codecs are refused by name.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tony.errors import RecordError

#: Nesting depth of types and of records.
_MAX_DEPTH = 32
_MAX_SCHEMA_BYTES = 1 << 20
#: Uncompressed bytes of one block, and of all blocks.
_MAX_BLOCK_BYTES = 64 << 20
_MAX_TOTAL_BYTES = 256 << 20
#: Values of one file, including empty ones. A value takes up to 200 bytes of memory; a job of 10,000 tasks has half a
#: million.
_MAX_VALUES = 1_000_000
_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
#: Decodes a value.
_Read = Callable[["_Bytes"], Any]


class CutOffError(RecordError):
    """The file ends inside a value or block: it may still be written."""


class _Bytes:
    """Input with a position and a budget of values."""

    def __init__(self, data: bytes, budget: list[int]) -> None:
        self.data = data
        self.at = 0
        self._budget = budget

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise CutOffError(f"it is cut off at byte {len(self.data)}")
        self.at += size
        return self.data[self.at - size : self.at]

    def read_long(self) -> int:
        number = shift = 0
        while True:
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)
            shift += 7
            if shift > 63:
                raise RecordError(f"a number at byte {self.at} is too long")

    def read_text(self) -> str:
        return self.take(self.read_long()).decode("utf-8", "replace")

    def spend(self, values: int = 1) -> None:
        """Charge values to the budget: even an empty value takes memory."""
        self._budget[0] -= values
        if self._budget[0] < 0:
            raise RecordError(f"it has more than {_MAX_VALUES:,} values")


def read_records(data: bytes) -> Iterator[Any]:
    """Yield every record of a file; those before an error are still yielded.

    A record in a union is returned as its fields, like any other record.

    Raises:
        CutOffError: the file ends too early.
        RecordError: it is not an Avro file, or is damaged.
    """
    budget = [_MAX_VALUES]
    source = _Bytes(data, budget)
    if not data.startswith(_MAGIC[: len(data)]):
        raise RecordError("it does not start like an Avro file")
    source.take(len(_MAGIC))
    meta = dict(_iterate_pairs(source, lambda each: each.take(each.read_long())))
    sync = source.take(_SYNC_BYTES)
    read = _create_reader(_parse_schema(meta), {}, 0)
    unpack = _find_codec(meta.get("avro.codec", b"null"))
    left = _MAX_TOTAL_BYTES
    while source.at < len(data):
        count, size = source.read_long(), source.read_long()
        block = _Bytes(unpack(source.take(size)), budget)
        left -= len(block.data)
        if left < 0:
            raise RecordError(f"its blocks have more than {_MAX_TOTAL_BYTES >> 20} MiB")
        if source.take(_SYNC_BYTES) != sync:
            raise RecordError(f"the block that ends at byte {source.at} is damaged")
        if count < 0:
            raise RecordError(f"the block that ends at byte {source.at} has {count} records")
        source.spend(count)
        for _ in range(count):
            yield read(block)


def _parse_schema(meta: Mapping[str, bytes]) -> Any:
    text = meta.get("avro.schema", b"")
    if len(text) > _MAX_SCHEMA_BYTES:
        raise RecordError(f"its schema has {len(text)} bytes")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise RecordError("its schema is not JSON") from None


def _find_codec(name: bytes) -> Callable[[bytes], bytes]:
    if name in (b"null", b""):
        return lambda data: data
    if name == b"deflate":
        return _inflate
    raise RecordError(f"its codec {name[:20].decode('ascii', 'replace')!r} is not supported")


def _inflate(data: bytes) -> bytes:
    stream = zlib.decompressobj(-15)
    try:
        found = stream.decompress(data, _MAX_BLOCK_BYTES)
    except zlib.error as error:
        raise RecordError(f"a block cannot be decompressed: {error}") from error
    if stream.unconsumed_tail:
        raise RecordError(f"a block is larger than {_MAX_BLOCK_BYTES >> 20} MiB")
    if not stream.eof:
        raise RecordError("a block cannot be decompressed: its end is missing")
    return found


def _create_reader(schema: Any, names: dict[str, _Read], depth: int) -> _Read:
    """Return the decoder of a type. Named types are added to `names`."""
    if depth > _MAX_DEPTH:
        raise RecordError(f"its schema is nested more than {_MAX_DEPTH} deep")
    if isinstance(schema, list):
        return _create_union_reader([_create_reader(each, names, depth + 1) for each in schema])
    if isinstance(schema, str):
        return _create_named_reader(schema, names)
    if not isinstance(schema, dict):
        raise RecordError("its schema is invalid")
    kind = schema.get("type")
    if not isinstance(kind, str):
        return _create_reader(kind, names, depth + 1)
    match kind:
        case "record" | "error":
            return _create_record_reader(schema, names, depth)
        case "enum":
            return _define(schema, names, _enum(schema.get("symbols")))
        case "fixed":
            size = schema.get("size")
            if type(size) is not int or size < 0:
                raise RecordError("its schema is invalid: a size is not a number")
            return _define(schema, names, lambda source: source.take(size))
        case "array":
            return _create_array_reader(_create_reader(schema.get("items"), names, depth + 1))
        case "map":
            values = _create_reader(schema.get("values"), names, depth + 1)
            return lambda source: dict(_iterate_pairs(source, values))
    return _create_named_reader(kind, names)


def _create_named_reader(name: str, names: Mapping[str, _Read]) -> _Read:
    found = _PRIMITIVES.get(name) or names.get(name) or names.get(name.rpartition(".")[2])
    if found is None:
        raise RecordError(f"its schema has the unknown type {name[:60]!r}")
    return found


def _define(schema: Mapping[str, Any], names: dict[str, _Read], read: _Read) -> _Read:
    name = schema.get("name")
    if isinstance(name, str):
        names[name] = names[name.rpartition(".")[2]] = read
    return read


def _create_record_reader(schema: Mapping[str, Any], names: dict[str, _Read], depth: int) -> _Read:
    fields: list[tuple[str, _Read]] = []
    level = [0]

    def read(source: _Bytes) -> dict[str, Any]:
        source.spend(1 + len(fields))
        level[0] += 1
        if level[0] > _MAX_DEPTH:
            raise RecordError(f"records are nested more than {_MAX_DEPTH} deep")
        try:
            return {name: field(source) for name, field in fields}
        finally:
            level[0] -= 1

    _define(schema, names, read)  # first: a record may contain others of its own type
    declared = schema.get("fields")
    if not isinstance(declared, list) or not all(isinstance(each, dict) and "type" in each for each in declared):
        raise RecordError("its schema is invalid: a record has no fields")
    fields += [(str(each.get("name")), _create_reader(each["type"], names, depth + 1)) for each in declared]
    return read


def _create_union_reader(readers: list[_Read]) -> _Read:
    def read(source: _Bytes) -> Any:
        branch = source.read_long()
        if not 0 <= branch < len(readers):
            raise RecordError(f"the value at byte {source.at} has a type that is not in its schema")
        return readers[branch](source)

    return read


def _enum(symbols: Any) -> _Read:
    words = [str(symbol) for symbol in symbols] if isinstance(symbols, list) else []

    def read(source: _Bytes) -> str:
        number = source.read_long()
        if not 0 <= number < len(words):
            raise RecordError(f"the symbol at byte {source.at} is not in its schema")
        return words[number]

    return read


def _create_array_reader(item: _Read) -> _Read:
    return lambda source: [item(source) for _ in _count_items(source)]


def _iterate_pairs(source: _Bytes, value: _Read) -> Iterator[tuple[str, Any]]:
    for _ in _count_items(source):
        key = source.read_text()
        yield key, value(source)


def _count_items(source: _Bytes) -> Iterator[None]:
    """Yield once for each item of an array or a map, which come in blocks."""
    while count := source.read_long():
        if count < 0:
            count = -count
            source.read_long()  # bytes of the block
        source.spend(count)
        for _ in range(count):
            yield None


_PRIMITIVES: Mapping[str, _Read] = {
    "null": lambda _: None,
    "boolean": lambda source: source.take(1) != b"\0",
    "int": _Bytes.read_long,
    "long": _Bytes.read_long,
    "float": lambda source: struct.unpack("<f", source.take(4))[0],
    "double": lambda source: struct.unpack("<d", source.take(8))[0],
    "bytes": lambda source: source.take(source.read_long()),
    "string": _Bytes.read_text,
}
