"""The times at which the bytes of a file were written, in a hidden file next to it.

    .<name>.times     blocks of 4 KiB, each of which can be read without the others

A block begins with an offset in the file and the time of the byte there, in hundredths of a second since 1970: 8 bytes
each, little-endian. Steps follow: how many bytes further and how many hundredths later the next known byte is, each as
a variable-length integer of 7 bits a byte, lowest first; a zero ends the block. So a step takes two or three bytes, a
time is found by a binary search over the blocks, and of an index that was cut off anywhere the rest is valid. A byte
without a step of its own has the time of the last known byte before it.
"""

from __future__ import annotations

import contextlib
import os
import struct
from bisect import bisect_left, bisect_right
from pathlib import Path

#: Hundredths of a second since 1970: times are kept as exactly as that.
PER_SECOND = 100
BLOCK_BYTES = 4096
_ENDING = ".times"
_HEADER = struct.Struct("<QQ")
#: Largest offset, and time (the end of the year 9999), of a valid index.
_MAX_OFFSET = 1 << 62
_MAX_MOMENT = 253_402_300_799 * PER_SECOND
#: Bytes of a file for each further block of its index, which takes at most a quarter of them and one block.
_FILE_BYTES_PER_BLOCK = 4 * BLOCK_BYTES
#: Bytes of a file for each time that is returned, on average; an index of our own has fewer.
_FILE_BYTES_PER_TIME = 8


def build_index_path(file: Path) -> Path:
    """Return the path of the index of a file."""
    return file.with_name(build_index_name(file.name))


def build_index_name(name: str) -> str:
    """Return the name of the index of a file, by the file's name."""
    return f".{name}{_ENDING}"


def parse_index_name(name: str) -> str:
    """Return the name of the file whose index has a name; empty if it is not the name of an index."""
    return name[1 : -len(_ENDING)] if name.startswith(".") and name.endswith(_ENDING) else ""


def rename_with_index(file: Path, target: Path) -> None:
    """Rename a file and its index, replacing those at the target. No file is next to another one's index meanwhile.

    Raises:
        OSError: the file cannot be renamed.
    """
    with contextlib.suppress(OSError):
        os.unlink(build_index_path(target))
    os.replace(file, target)
    with contextlib.suppress(OSError):
        os.replace(build_index_path(file), build_index_path(target))


class TimeIndexWriter:
    """Writes the index of one file, and continues one that exists.

    What cannot be written is left out, and costs exactness only.
    """

    def __init__(self, file: Path) -> None:
        self._path = build_index_path(file)
        self._descriptor = -1
        self._size = 0
        self._offset = -1
        self._moment = 0

    def note(self, offset: int, moment: int) -> None:
        """Note that the bytes of the file from an offset on were written at a time. Never raises.

        Call it before they are written, so that no reader sees bytes without their time.

        Args:
            moment: hundredths of a second since 1970. One before the last one counts as that: a clock may be set back.
        """
        if offset <= self._offset or moment <= self._moment:
            return
        with contextlib.suppress(OSError):
            if self._descriptor < 0:
                self._open()
            self._write(offset, moment)

    def close(self) -> None:
        """Close the index. May be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self._path, flags, 0o644)
        self._size = os.fstat(self._descriptor).st_size
        start = (self._size - 1) // BLOCK_BYTES * BLOCK_BYTES if self._size else 0
        self._size = start  # a block that is not valid is written again
        known, used = _read_block(self._descriptor, start)
        if known:
            (self._offset, self._moment), self._size = known[-1], start + used

    def _write(self, offset: int, moment: int) -> None:
        if offset <= self._offset or moment <= self._moment:  # of an index that is continued
            return
        step = _encode(offset - self._offset) + _encode(moment - self._moment)
        used = self._size % BLOCK_BYTES
        if used and used + len(step) <= BLOCK_BYTES:
            self._put(step, self._size)
        else:
            start = -(-self._size // BLOCK_BYTES) * BLOCK_BYTES  # what is left of the last block stays zero
            if start // BLOCK_BYTES > offset // _FILE_BYTES_PER_BLOCK:
                return
            self._put(_HEADER.pack(offset, moment), start)
        self._offset, self._moment = offset, moment

    def _put(self, data: bytes, at: int) -> None:
        if os.pwrite(self._descriptor, data, at) == len(data):
            self._size = at + len(data)
        else:
            raise OSError("only a part was written")  # the next step overwrites it


def read_times(descriptor: int, start: int, end: int) -> list[tuple[int, int]]:
    """Return offsets and times (hundredths of a second since 1970) of known bytes, in order; empty if there are none.

    The first one is the last known byte at or before `start`, if there is one; the others are between it and `end`.
    Not every index is our own: of a damaged one, some times may be wrong or missing, but there is no more than one for
    eight bytes, and those of two blocks.
    """
    found: list[tuple[int, int]] = []
    max_times = (end - start) // _FILE_BYTES_PER_TIME + BLOCK_BYTES // 2
    block = max(0, _find_block(descriptor, 0, start))
    while len(found) < max_times:
        known, _ = _read_block(descriptor, block * BLOCK_BYTES)
        if not known or known[0][0] >= end:
            break
        if found and known[0][0] <= max(start, found[-1][0]):  # blocks out of order repeat the same bytes
            break
        found += known[max(0, bisect_right(known, (start, _MAX_MOMENT)) - 1) : bisect_left(known, (end, 0))]
        if known[-1][0] >= end:
            break
        block += 1
    return found


def find_offset(descriptor: int, moment: int) -> int | None:
    """Return the offset of the first known byte that was written at or after a time; None if there is none.

    Args:
        moment: hundredths of a second since 1970.
    """
    block = max(0, _find_block(descriptor, 1, moment - 1))
    for number in (block, block + 1):
        known, _ = _read_block(descriptor, number * BLOCK_BYTES)
        at = bisect_left(known, moment, key=lambda each: each[1])
        if at < len(known):
            return known[at][0]
    return None


def _find_block(descriptor: int, field: int, value: int) -> int:
    """Return the number of the last block whose first offset (field 0) or time (1) is at most `value`; else -1."""
    low, high = 0, -(-os.fstat(descriptor).st_size // BLOCK_BYTES)
    while low < high:
        middle = (low + high) // 2
        header = os.pread(descriptor, _HEADER.size, middle * BLOCK_BYTES)
        if len(header) == _HEADER.size and _HEADER.unpack(header)[field] <= value:
            low = middle + 1
        else:
            high = middle
    return low - 1


def _read_block(descriptor: int, start: int) -> tuple[list[tuple[int, int]], int]:
    """Return offset and time of the known bytes of a block, and how many bytes of the block were used for them."""
    data = os.pread(descriptor, BLOCK_BYTES, start)
    known: list[tuple[int, int]] = []
    used = _HEADER.size
    if len(data) < used:
        return known, used
    offset, moment = _HEADER.unpack_from(data)
    data += bytes(2)  # the end of a block that is not full, or was cut off
    at = used
    while offset <= _MAX_OFFSET and 0 < moment <= _MAX_MOMENT:
        known.append((offset, moment))
        used = at
        further, later = data[at], data[at + 1] if at + 1 < len(data) else 0
        if further < 0x80 > later:  # as almost always
            at += 2
        else:
            further, at = _decode(data, at)
            later, at = _decode(data, at)
        if not further or not later or at > len(data) - 2:
            break
        offset += further
        moment += later
    return known, used


def _encode(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def _decode(data: bytes, at: int) -> tuple[int, int]:
    """Return a number and the place after it; 0 where none is complete."""
    number = shift = 0
    while at < len(data) and shift < 63:
        number |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return number, at
        shift += 7
    return 0, at
