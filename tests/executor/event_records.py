"""Event files for TensorBoard, made byte by byte: what programs write, and what damage looks like."""

from __future__ import annotations

import struct

from tony.executor.metrics.tfevents import compute_masked_crc


def varint(value: int) -> bytes:
    """A whole number of protocol buffers."""
    found = bytearray()
    value &= (1 << 64) - 1
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def field(number: int, value: int | bytes | float) -> bytes:
    """One field: a whole number, bytes, or a float of four bytes."""
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3) + varint(value)


def scalar(step: int, written_at: float = 1.5e9, **values: float) -> bytes:
    """An event as PyTorch writes it; `__` in a tag is a slash."""
    tags = [field(1, field(1, name.replace("__", "/").encode()) + field(2, float(v))) for name, v in values.items()]
    return struct.pack("<Bd", 9, written_at) + field(2, step) + field(5, b"".join(tags))


def tensor(step: int, tag: str, value: float, *, content: bool) -> bytes:
    """An event as TensorFlow 2 writes it: a tensor of one float, as a list or as its bytes."""
    data = struct.pack("<f", value)
    proto = field(1, 1) + field(2, b"") + (field(4, data) if content else field(5, data))
    return field(2, step) + field(5, field(1, field(1, tag.encode()) + field(8, proto)))


def framed(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", compute_masked_crc(length)) + data + struct.pack("<I", compute_masked_crc(data))


#: What every file begins with.
VERSION = framed(struct.pack("<Bd", 9, 1.5e9) + field(3, b"brain.Event:2"))
