"""TensorBoard's event files: parses just the step and scalars. Pure.

Facts: a TFRecord is length (uint64), masked CRC32C of those 8 bytes, data, masked CRC32C of the data, all little-endian
(tensorflow/core/lib/io/record_writer.h). The data is an Event (tensorflow/core/util/event.proto: 2 step, 5 summary); a
Summary has values (1), each with tag (1) and simple_value (2), or a tensor (8) of one number (framework/summary.proto,
framework/tensor.proto).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

#: Bytes of a record that can be a scalar: images and histograms are skipped.
_MAX_SCALAR_BYTES = 16 << 10
HEAD = 12
_HEAD = struct.Struct("<QI")
_CRC = struct.Struct("<I")
_FLOAT = struct.Struct("<f")
_DOUBLE = struct.Struct("<d")
#: Tensor types (framework/types.proto) whose bytes are read: DT_FLOAT, DT_DOUBLE.
_TYPES = {1: _FLOAT, 2: _DOUBLE}
_LENGTH_LIMIT = 1 << 40


class DamagedFileError(ValueError):
    """The file is not a valid event file."""


@dataclass(frozen=True, slots=True)
class Scalars:
    """The scalars of one event.

    Attributes:
        values: tag -> number.
        written_at: when the program wrote it, seconds since 1970; 0 if it does not say.
    """

    step: int
    values: dict[str, float]
    written_at: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class TFRecord:
    """One record: its data, and the checksum stored with it."""

    data: bytes
    crc: int

    def parse_scalars(self) -> Scalars | None:
        """Return its scalars; None if it has none or is damaged."""
        if compute_masked_crc(self.data) != self.crc:
            return None
        try:
            return _parse_event(self.data)
        except (ValueError, IndexError, struct.error, UnicodeDecodeError):
            return None


def read_length(head: bytes) -> int:
    """Return the length of the record's data in bytes.

    Raises:
        DamagedFileError: no record begins here.
    """
    length, crc = _HEAD.unpack(head)
    if length > _LENGTH_LIMIT or compute_masked_crc(head[:8]) != crc:
        raise DamagedFileError("no record begins here")
    return int(length)


def is_short(length: int) -> bool:
    """Return True if a record may be a scalar."""
    return length <= _MAX_SCALAR_BYTES


def parse_record(body: bytes) -> TFRecord:
    """Return a record from the bytes after its head."""
    return TFRecord(body[:-4], _CRC.unpack(body[-4:])[0])


# --- CRC32C -----------------------------------------------------------------------------------------------------------


def _build_table() -> list[int]:
    found = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        found.append(crc)
    return found


_TABLE = _build_table()


def compute_masked_crc(data: bytes) -> int:
    """Return the CRC32C (Castagnoli) of data, masked as in TFRecords."""
    crc, table = 0xFFFFFFFF, _TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


# --- protocol buffers -------------------------------------------------------------------------------------------------


def _parse_event(data: bytes) -> Scalars | None:
    step, values, written_at = 0, {}, 0.0
    for number, value in _parse_fields(data):
        if number == 1 and isinstance(value, bytes):
            (written_at,) = struct.unpack("<d", value)
        elif number == 2 and isinstance(value, int):
            step = value - (1 << 64) if value >> 63 else value
        elif number == 5 and isinstance(value, bytes):
            values.update(_parse_summary(value))
    return Scalars(step, values, written_at) if values and step >= 0 else None


def _parse_summary(data: bytes) -> dict[str, float]:
    found = {}
    for number, value in _parse_fields(data):
        if number == 1 and isinstance(value, bytes):
            tag, scalar = _parse_value(value)
            if tag and scalar is not None and math.isfinite(scalar):
                found[tag] = scalar
    return found


def _parse_value(data: bytes) -> tuple[str, float | None]:
    tag, scalar = "", None
    for number, value in _parse_fields(data):
        if not isinstance(value, bytes):
            continue
        if number == 1:
            tag = value.decode()
        elif number == 2 and len(value) == 4:
            scalar = _FLOAT.unpack(value)[0]
        elif number == 8:
            scalar = _parse_tensor(value)
    return tag, scalar


def _parse_tensor(data: bytes) -> float | None:
    """Return the value of a tensor that has exactly one."""
    kind, found = 0, []
    for number, value in _parse_fields(data):
        if number == 1 and isinstance(value, int):
            kind = value
        elif number == 5 and isinstance(value, bytes):
            found += [each[0] for each in _FLOAT.iter_unpack(value)] if len(value) % 4 == 0 else []
        elif number == 6 and isinstance(value, bytes):
            found += [each[0] for each in _DOUBLE.iter_unpack(value)] if len(value) % 8 == 0 else []
        elif number == 4 and isinstance(value, bytes) and kind in _TYPES and len(value) == _TYPES[kind].size:
            found += _TYPES[kind].unpack(value)
    return found[0] if len(found) == 1 else None


def _parse_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field: integers or bytes."""
    place = 0
    while place < len(data):
        key, place = _parse_varint(data, place)
        kind = key & 7
        if kind == 0:
            value, place = _parse_varint(data, place)
            yield key >> 3, value
            continue
        size = {1: 8, 5: 4}.get(kind)
        if kind == 2:
            size, place = _parse_varint(data, place)
        if size is None or place + size > len(data):
            raise ValueError("invalid field")
        yield key >> 3, data[place : place + size]
        place += size


def _parse_varint(data: bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, place
    raise ValueError("invalid varint")
