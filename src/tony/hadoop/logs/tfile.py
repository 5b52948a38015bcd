"""The usual format of aggregated logs: one file for each node, a TFile of keys and values in blocks.

A TFile is a BCFile: 16 bytes of magic, blocks, an index of the blocks, an index of such indices ("meta"), its offset,
the version, and the magic again. Numbers are TFile's own; strings have their length before them. A block holds records:
key and value, each with its length before it, the value in chunks. Keys are Java strings: `VERSION`,
`APPLICATION_OWNER`, `APPLICATION_ACL`, and then containers, whose value is one log file after the other: name, length
in digits, bytes.

The index is read with the end of the file; values are streamed in bounded memory.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tony.hadoop.logs.compression import Decoded, decode, read_exactly, read_pieces
from tony.hadoop.logs.errors import MalformedLogFileError
from tony.hadoop.logs.range_reader import Opener, RangeReader, read_range

MAGIC = bytes.fromhex("d111d36891b5d7b639df414092bae150")
#: Offset of the meta index (8), version (2 + 2), magic.
_TAIL = 8 + 4 + len(MAGIC)
#: Of an index. A block holds 256 KiB and more, so 100,000 are enough for 24 GiB of compressed logs on one node.
MAX_INDEX_BYTES = 16 * 2**20
_MAX_BLOCKS = 100_000
#: Of a key or a file's name; Java's writeUTF ends at 65,535 bytes.
_MAX_NAME_BYTES = 65_535
_INDEX_NAME = "data:BCFile.index"
#: Keys that are no containers.
_OTHER_KEYS = {"VERSION", "APPLICATION_OWNER", "APPLICATION_ACL"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One stretch of records.

    Attributes:
        offset: where it begins in the file.
        stored: bytes as they lie there.
        plain: bytes without compression.
    """

    offset: int
    stored: int
    plain: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TFileIndex:
    """Index of the records of a TFile.

    Attributes:
        compression: of all data blocks: `none` or `gz`.
        blocks: in the file's order.
    """

    compression: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TFileEntry:
    """One log file of a container inside an aggregated file.

    Attributes:
        length: bytes.
        block: number of its block.
        offset: of its first byte among the plain bytes of the value of its record.
        record: which record of the block.
    """

    container: str
    name: str
    length: int
    block: int
    record: int
    offset: int


def is_tfile(start: bytes) -> bool:
    """Return True if a file that starts with these bytes is a TFile."""
    return start.startswith(MAGIC)


def read_index(open_at: Opener, size: int) -> TFileIndex:
    """Read where the blocks are.

    Args:
        size: of the file, bytes.

    Raises:
        MalformedLogFileError: no TFile, or damaged.
    """
    if size < len(MAGIC) + _TAIL:
        raise MalformedLogFileError(f"is no TFile: it has {size} bytes only; perhaps it is still being written")
    # One request usually returns the whole end of the file.
    at = max(len(MAGIC), size - 64 * 2**10)
    tail = read_range(open_at, at, size)
    if tail[-len(MAGIC) :] != MAGIC:
        raise MalformedLogFileError("is no TFile: the mark at its end is missing; perhaps it is still being written")
    major = int.from_bytes(tail[-20:-18], "big", signed=True)
    if major != 1:
        raise MalformedLogFileError(f"is a TFile of version {major}; only 1 can be read here")
    meta_at = int.from_bytes(tail[-_TAIL : -_TAIL + 8], "big", signed=True)
    meta = _read_stretch(open_at, size, tail, meta_at, size - _TAIL - meta_at)
    return _read_data_index(open_at, size, tail, meta)


def _read_stretch(open_at: Opener, size: int, tail: bytes, offset: int, length: int) -> bytes:
    """Return some bytes of the file, from what was read already if they are there."""
    if not len(MAGIC) <= offset <= size or not 0 <= length <= min(MAX_INDEX_BYTES, size - offset):
        raise MalformedLogFileError(f"has an index of {length} bytes at byte {offset}, which cannot be")
    from_tail = offset - (size - len(tail))
    if from_tail >= 0:
        return tail[from_tail : from_tail + length]
    return read_range(open_at, offset, offset + length)


def _read_data_index(open_at: Opener, size: int, tail: bytes, meta: bytes) -> TFileIndex:
    """Find the index of the data blocks among the meta blocks, and reads it."""
    fields = _Fields(meta)
    for _ in range(fields.read_count("meta blocks")):
        name = fields.read_text()
        compression = fields.read_text()
        block = fields.read_block()
        if name != _INDEX_NAME:
            continue
        stored = _read_stretch(open_at, size, tail, block.offset, block.stored)
        index = _Fields(_decompress(stored, compression, block.plain))
        default = index.read_text()
        blocks = tuple(index.read_block() for _ in range(index.read_count("blocks")))
        for one in blocks:
            if one.offset < len(MAGIC) or one.offset + one.stored > size:
                raise MalformedLogFileError(f"has a block at byte {one.offset} that is outside of it")
        return TFileIndex(compression=default, blocks=blocks)
    raise MalformedLogFileError("has no index of its blocks")


def _decompress(stored: bytes, compression: str, size: int) -> bytes:
    if size > MAX_INDEX_BYTES:
        raise MalformedLogFileError(f"has an index of {size} bytes, which cannot be")

    def open_at(offset: int, length: int) -> io.BytesIO:
        return io.BytesIO(stored[offset : offset + length])

    return read_exactly(decode(RangeReader(open_at, 0, len(stored)), compression), size)


class _Fields:
    """Numbers and strings of an index, in order."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) != size:
            raise MalformedLogFileError("has an index that is cut off")
        self._at += size
        return taken

    def read_number(self) -> int:
        return read_number(self.take)

    def read_text(self) -> str:
        return _decode_text(self.take(_check_length(self.read_number(), "a name of an index")))

    def read_count(self, what: str) -> int:
        number = self.read_number()
        if not 0 <= number <= _MAX_BLOCKS:
            raise MalformedLogFileError(f"claims to have {number} {what}")
        return number

    def read_block(self) -> Block:
        offset, stored, plain = self.read_number(), self.read_number(), self.read_number()
        if min(offset, stored, plain) < 0:
            raise MalformedLogFileError("has an index with negative numbers")
        return Block(offset=offset, stored=stored, plain=plain)


class _Take:
    """The bytes of a block, given out in exact pieces; knows whether there are more."""

    def __init__(self, source: Decoded) -> None:
        self._source = source
        self._ahead = b""

    def __call__(self, size: int) -> bytes:
        if not size:
            return b""
        if self._ahead:
            first, self._ahead = self._ahead, b""
            return first + read_exactly(self._source, size - 1)
        return read_exactly(self._source, size)

    def read_chunk(self, size: int) -> bytes:
        if self._ahead and size > 0:
            first, self._ahead = self._ahead, b""
            return first
        return self._source.read_chunk(size)

    def skip(self, size: int) -> None:
        if self._ahead and size:
            self._ahead = b""
            size -= 1
        self._source.skip(size)

    def has_ended(self) -> bool:
        if not self._ahead:
            self._ahead = self._source.read_chunk(1)
        return not self._ahead


class TFileValue:
    """The value of a record: chunks, each with its length before it; a negative length says that more follow."""

    def __init__(self, take: _Take) -> None:
        self._take = take
        self._left = 0
        self._last = False
        #: Plain bytes given out or left out so far.
        self.position = 0

    def read_chunk(self, size: int) -> bytes:
        """Return at most `size` bytes; empty at the end."""
        if size <= 0 or not self._read_more():
            return b""
        part = self._take.read_chunk(min(size, self._left))
        if not part:
            raise MalformedLogFileError(f"has a record that ends {self._left} bytes too early")
        self._left -= len(part)
        self.position += len(part)
        return part

    def skip(self, size: int) -> None:
        """Skip bytes."""
        while size:
            if not self._read_more():
                raise MalformedLogFileError(f"has a log file that ends {size} bytes too early")
            step = min(size, self._left)
            self._take.skip(step)
            self._left -= step
            self.position += step
            size -= step

    def finish(self) -> None:
        """Skip to the next record."""
        while self._read_more():
            self.skip(self._left)

    def has_ended(self) -> bool:
        """Return True at the end."""
        return not self._read_more()

    def close(self) -> None:
        """Do nothing: the owner of the block closes it."""

    def _read_more(self) -> bool:
        while not self._left and not self._last:
            length = read_number(self._take)
            self._last = length >= 0
            self._left = abs(length)
        return self._left > 0


def iterate_records(open_at: Opener, index: TFileIndex, block: int) -> Iterator[tuple[str, TFileValue]]:
    """Yield the records of one block: key and value; a value is valid only until the next record is read.

    Raises:
        MalformedLogFileError: damaged.
    """
    where = index.blocks[block]
    source = decode(RangeReader(open_at, where.offset, where.offset + where.stored), index.compression)
    take = _Take(source)
    try:
        while not take.has_ended():
            key = _parse_key(take(_check_length(read_number(take), "a key")))
            value = TFileValue(take)
            yield key, value
            value.finish()
    finally:
        source.close()


def iterate_entries(open_at: Opener, index: TFileIndex) -> Iterator[TFileEntry]:
    """Yield every log file, in the file's order. Reads over the logs themselves, in pieces.

    Raises:
        MalformedLogFileError: damaged.
    """
    for block in range(len(index.blocks)):
        for number, (key, value) in enumerate(iterate_records(open_at, index, block)):
            if key in _OTHER_KEYS:
                continue
            while not value.has_ended():
                name = _read_java_text(value)
                length = _parse_decimal(_read_java_text(value))
                found = TFileEntry(
                    container=key, name=name, length=length, block=block, record=number, offset=value.position
                )
                value.skip(length)
                yield found


def read(open_at: Opener, index: TFileIndex, entry: TFileEntry, offset: int, length: int) -> Iterator[bytes]:
    """Yield the bytes of one log file, in pieces.

    Args:
        offset: of the first byte wanted.
        length: maximum number of bytes.

    Raises:
        MalformedLogFileError: damaged.
    """
    offset = min(offset, entry.length)
    left = min(length, entry.length - offset)
    if left <= 0:
        return
    found = iterate_records(open_at, index, entry.block)
    try:
        for number, (_, value) in enumerate(found):
            if number < entry.record:
                continue
            value.skip(entry.offset + offset)
            yield from read_pieces(value, entry.name, left)
            return
    finally:
        found.close()  # type: ignore[attr-defined]


def read_number(take: Callable[[int], bytes]) -> int:
    """Read a TFile number: one to nine bytes, as the first tells; not Hadoop's other encoding, nor protobuf's."""
    first = int.from_bytes(take(1), "big", signed=True)
    if first >= -32:
        return first
    if first >= -72:
        return ((first + 52) << 8) + int.from_bytes(take(1), "big")
    if first >= -104:
        return ((first + 88) << 16) + int.from_bytes(take(2), "big")
    if first >= -120:
        return ((first + 112) << 24) + int.from_bytes(take(3), "big")
    if first >= -125 and first <= -121:
        return int.from_bytes(take(first + 129), "big", signed=True)
    raise MalformedLogFileError(f"holds a number that begins with {first}, which cannot be")


def _check_length(number: int, what: str) -> int:
    if not 0 <= number <= _MAX_NAME_BYTES + 2:
        raise MalformedLogFileError(f"claims {number} bytes for {what}")
    return number


def _parse_key(data: bytes) -> str:
    """Return a Java string with two bytes of length before it, and nothing behind."""
    if len(data) < 2 or int.from_bytes(data[:2], "big") != len(data) - 2:
        raise MalformedLogFileError("has a record whose key is no string")
    return _decode_text(data[2:])


def _read_java_text(value: TFileValue) -> str:
    return _decode_text(read_exactly(value, int.from_bytes(read_exactly(value, 2), "big")))


def _decode_text(data: bytes) -> str:
    # Java's own UTF-8 (a zero in two bytes, surrogates) differs for names that no log file has.
    return data.decode("utf-8", "replace")


def _parse_decimal(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise MalformedLogFileError(f"has a log file whose length is {text!r:.40}")
    return int(text)
