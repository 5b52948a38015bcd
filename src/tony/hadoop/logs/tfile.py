"""The usual format of aggregated logs: one file for each node, a TFile of keys and values in blocks.

A TFile is a BCFile: 16 bytes of magic, blocks, an index of the blocks, an index of such indices ("meta"), its offset,
the version, and the magic again. Numbers are TFile's own; strings have their length before them. A block holds records:
key and value, each with its length before it, the value in chunks. Keys are Java strings: `VERSION`,
`APPLICATION_OWNER`, `APPLICATION_ACL`, and then containers, whose value is one log file after the other: name, length
in digits, bytes.

The index is read with the end of the file; values are streamed in bounded memory.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import partial
from io import BytesIO
from itertools import islice
from typing import NamedTuple

from tony.hadoop.logs.log_files import (
    LogFileEntry,
    MalformedLogFileError,
    Opener,
    PlainBytes,
    open_stretch,
    read_exactly,
    read_pieces,
    read_range,
)

MAGIC = bytes.fromhex("d111d36891b5d7b639df414092bae150")
#: Offset of the meta index (8), version (2 + 2), magic.
_TAIL = 8 + 4 + len(MAGIC)
#: Of an index. A block holds 256 KiB and more, so 100,000 are enough for 24 GiB of compressed logs on one node.
_MAX_INDEX_BYTES = 16 * 2**20
_MAX_BLOCKS = 100_000
#: Of a key or a file's name; Java's writeUTF ends at 65,535 bytes.
_MAX_NAME_BYTES = 65_535
_INDEX_NAME = "data:BCFile.index"
#: Keys that are no containers.
_OTHER_KEYS = {"VERSION", "APPLICATION_OWNER", "APPLICATION_ACL"}


class _Block(NamedTuple):
    """One stretch of records: where it begins in the file, bytes as they lie there, bytes without compression."""

    offset: int
    stored: int
    plain: int


def is_tfile(start: bytes) -> bool:
    """Return True if a file that starts with these bytes is a TFile."""
    return start.startswith(MAGIC)


def iterate_entries(open_at: Opener, size: int) -> Iterator[LogFileEntry]:
    """Yield every log file, in the file's order. Reads over the logs themselves, in pieces.

    Args:
        size: of the file, bytes.

    Raises:
        MalformedLogFileError: no TFile, or damaged.
    """
    compression, blocks = _read_index(open_at, size)
    for block in blocks:
        open_block = partial(open_stretch, open_at, block.offset, block.offset + block.stored, compression)
        for number, (key, value) in enumerate(_iterate_records(open_block)):
            if key in _OTHER_KEYS:
                continue
            while not value.has_ended():
                name = _read_java_text(value)
                length = _parse_decimal(_read_java_text(value))
                read = partial(_read, open_block, number, value.position)
                value.skip(length)
                yield LogFileEntry(container=key, name=name, length=length, read=read)


def _read(open_block: Callable[[], PlainBytes], record: int, start: int, offset: int, length: int) -> Iterator[bytes]:
    """Yield bytes of a log file that starts in the value of a record of a block."""
    if not length:
        return
    with closing(_iterate_records(open_block)) as records:  # held: its end would end the request
        found = next(islice(records, record, None), None)
        if found is None:
            raise MalformedLogFileError("has fewer records than before")
        value = found[1]
        value.skip(start + offset)
        yield from read_pieces(value, length)


def _read_index(open_at: Opener, size: int) -> tuple[str, list[_Block]]:
    """Return the compression of all blocks, and where they are in the file."""
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
    if not len(MAGIC) <= offset <= size or not 0 <= length <= min(_MAX_INDEX_BYTES, size - offset):
        raise MalformedLogFileError(f"has an index of {length} bytes at byte {offset}, which cannot be")
    from_tail = offset - (size - len(tail))
    if from_tail >= 0:
        return tail[from_tail : from_tail + length]
    return read_range(open_at, offset, offset + length)


def _read_data_index(open_at: Opener, size: int, tail: bytes, meta: bytes) -> tuple[str, list[_Block]]:
    """Find the index of the data blocks among the meta blocks, and read it."""
    fields = _Fields(meta)
    for _ in range(fields.read_count("meta blocks")):
        name = fields.read_text()
        compression = fields.read_text()
        block = fields.read_block()
        if name != _INDEX_NAME:
            continue
        stored = _read_stretch(open_at, size, tail, block.offset, block.stored)
        index = _Fields(_decompress(stored, compression, block.plain))
        data_compression = index.read_text()
        blocks = [index.read_block() for _ in range(index.read_count("blocks"))]
        for one in blocks:
            if one.offset < len(MAGIC) or one.offset + one.stored > size:
                raise MalformedLogFileError(f"has a block at byte {one.offset} that is outside of it")
        return data_compression, blocks
    raise MalformedLogFileError("has no index of its blocks")


def _decompress(stored: bytes, compression: str, size: int) -> bytes:
    if size > _MAX_INDEX_BYTES:
        raise MalformedLogFileError(f"has an index of {size} bytes, which cannot be")
    source = open_stretch(lambda offset, length: BytesIO(stored[offset : offset + length]), 0, len(stored), compression)
    return read_exactly(source, size)


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

    def read_block(self) -> _Block:
        offset, stored, plain = self.read_number(), self.read_number(), self.read_number()
        if min(offset, stored, plain) < 0:
            raise MalformedLogFileError("has an index with negative numbers")
        return _Block(offset, stored, plain)


class _RecordValue:
    """The value of a record: chunks, each with its length before it; a negative length says that more follow."""

    def __init__(self, source: PlainBytes) -> None:
        self._source = source
        self._left = 0
        self._is_last = False
        #: Plain bytes given out or left out so far.
        self.position = 0

    def read_chunk(self, size: int) -> bytes:
        if size <= 0 or self.has_ended():
            return b""
        part = self._source.read_chunk(min(size, self._left))
        if not part:
            raise MalformedLogFileError(f"has a record that ends {self._left} bytes too early")
        self._left -= len(part)
        self.position += len(part)
        return part

    def skip(self, size: int) -> None:
        while size:
            if self.has_ended():
                raise MalformedLogFileError(f"has a log file that ends {size} bytes too early")
            step = min(size, self._left)
            self._source.skip(step)
            self._left -= step
            self.position += step
            size -= step

    def has_ended(self) -> bool:
        while not self._left and not self._is_last:
            length = read_number(partial(read_exactly, self._source))
            self._is_last = length >= 0
            self._left = abs(length)
        return not self._left

    def finish(self) -> None:
        """Skip to the next record."""
        while not self.has_ended():
            self.skip(self._left)

    def close(self) -> None:
        self._source.close()


def _iterate_records(open_block: Callable[[], PlainBytes]) -> Generator[tuple[str, _RecordValue], None, None]:
    """Yield the records of one block: key and value; a value is valid only until the next record is read."""
    source = open_block()
    try:
        while not source.has_ended():
            length = _check_length(read_number(partial(read_exactly, source)), "a key")
            key = _parse_key(read_exactly(source, length))
            value = _RecordValue(source)
            yield key, value
            value.finish()
    finally:
        source.close()


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


def _read_java_text(value: _RecordValue) -> str:
    return _decode_text(read_exactly(value, int.from_bytes(read_exactly(value, 2), "big")))


def _decode_text(data: bytes) -> str:
    # Java's own UTF-8 (a zero in two bytes, surrogates) differs for names that no log file has.
    return data.decode("utf-8", "replace")


def _parse_decimal(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise MalformedLogFileError(f"has a log file whose length is {text!r:.40}")
    return int(text)
