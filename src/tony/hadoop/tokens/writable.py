"""Hadoop's encoding of numbers and strings (`Writable`), older than its protobufs and still used in token files.

A first byte from -112 to 127 is the number itself. A lower one gives the count of bytes that follow, big-endian: from
-113 to -120 one to eight bytes of a number >= 0, from -121 to -128 the same of a complemented negative number. A string
is its length in bytes and its UTF-8. This is not protobuf's varint.
"""

from __future__ import annotations

from tony.errors import InfraError


class MalformedWritableError(InfraError):
    """Bytes that are not what they claim to be."""


class WritableReader:
    """Reads from bytes, and never beyond them."""

    def __init__(self, data: bytes, offset: int = 0) -> None:
        self._data = data
        self.offset = offset

    @property
    def left(self) -> int:
        """Bytes that have not been read."""
        return len(self._data) - self.offset

    def take(self, size: int) -> bytes:
        """Return the next `size` bytes.

        Raises:
            MalformedWritableError: there are fewer.
        """
        if not 0 <= size <= self.left:
            raise MalformedWritableError(f"{size} bytes are announced at {self.offset}, and {self.left} are left")
        self.offset += size
        return self._data[self.offset - size : self.offset]

    def read_number(self) -> int:
        """Return a number of variable length."""
        first = int.from_bytes(self.take(1), "big", signed=True)
        if first >= -112:
            return first
        size = -112 - first if first >= -120 else -120 - first
        value = int.from_bytes(self.take(size), "big")
        if value >> 63:
            raise MalformedWritableError(f"a number at {self.offset - size} that is longer than 64 bits")
        return value if first >= -120 else ~value

    def read_blob(self) -> bytes:
        """Return bytes behind their length."""
        return self.take(self.read_number())

    def read_text(self) -> str:
        """Read a string."""
        data = self.read_blob()
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise MalformedWritableError(f"a text before {self.offset} that is not UTF-8") from None


def write_number(value: int) -> bytes:
    """Return a number of variable length.

    Raises:
        ValueError: more than 64 bits.
    """
    if -112 <= value <= 127:
        return value.to_bytes(1, "big", signed=True)
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{value} does not fit 64 bits")
    positive = value if value >= 0 else ~value
    body = positive.to_bytes((positive.bit_length() + 7) // 8, "big")
    first = (-112 if value >= 0 else -120) - len(body)
    return first.to_bytes(1, "big", signed=True) + body


def write_blob(data: bytes) -> bytes:
    """Return bytes behind their length."""
    return write_number(len(data)) + data


def write_text(value: str) -> bytes:
    """Read a string."""
    return write_blob(value.encode())
