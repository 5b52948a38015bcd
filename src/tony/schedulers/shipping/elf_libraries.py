"""Read the shared libraries that an ELF program needs, and rewrite its RPATH.

Format: elf.h, 64 bits, little-endian, as on x86-64 and ARM.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_PT_LOAD = 1
_PT_DYNAMIC = 2
_DT_NULL = 0
_DT_NEEDED = 1
_DT_STRTAB = 5
_DT_RPATH = 15
_DT_RUNPATH = 29
_MAGIC = b"\x7fELF\x02\x01"
_HEADER = struct.Struct("<32xQ14xHH")
_SEGMENT = struct.Struct("<I4xQQ8xQ16x")
_ENTRY = struct.Struct("<qQ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Libraries:
    """The dynamic section of a program.

    Attributes:
        needed: names of shared libraries.
        path: RPATH or RUNPATH: folders to search, separated by `:`; None if it has none.
        path_at: offset of that text in the file; the byte after it is 0.
    """

    needed: tuple[str, ...] = ()
    path: str | None = None
    path_at: int = 0


def read_libraries(program: bytes) -> Libraries:
    """Parse a program.

    Raises:
        ValueError: it is not a 64-bit ELF program.
    """
    if not program.startswith(_MAGIC):
        raise ValueError("it is not a 64-bit Linux program (ELF)")
    try:
        return _read(program)
    except (struct.error, IndexError, OverflowError) as error:
        raise ValueError(f"it is a damaged program ({error})") from error


def with_search_path(program: bytes, folders: str) -> bytes:
    """Return the program with other folders to search. They must not be longer than the present ones.

    Raises:
        ValueError: they are longer.
    """
    found, new = read_libraries(program), folders.encode()
    if found.path is None or len(found.path.encode()) < len(new):
        raise ValueError(f"its RPATH is too short for the path of its libraries ({found.path or 'it has none'})")
    end = found.path_at + len(found.path.encode())
    return program[: found.path_at] + new.ljust(end - found.path_at, b"\0") + program[end:]


def _read(program: bytes) -> Libraries:
    table, size, count = _HEADER.unpack_from(program)
    segments = [_SEGMENT.unpack_from(program, table + number * size) for number in range(count)]
    loaded = [(address, offset, length) for kind, offset, address, length in segments if kind == _PT_LOAD]
    entries: list[tuple[int, int]] = []
    for kind, offset, _, length in segments:
        if kind == _PT_DYNAMIC:
            entries += [_ENTRY.unpack_from(program, at) for at in range(offset, offset + length, _ENTRY.size)]
    if (_DT_NULL, 0) in entries:
        entries = entries[: entries.index((_DT_NULL, 0))]
    values = dict(entries)
    if _DT_STRTAB not in values:
        return Libraries()
    strings = _find_offset(values[_DT_STRTAB], loaded)
    # DT_RUNPATH has priority over DT_RPATH.
    at = values.get(_DT_RUNPATH, values.get(_DT_RPATH))
    return Libraries(
        needed=tuple(_read_text(program, strings + value) for tag, value in entries if tag == _DT_NEEDED),
        path=None if at is None else _read_text(program, strings + at),
        path_at=0 if at is None else strings + at,
    )


def _find_offset(address: int, loaded: list[tuple[int, int, int]]) -> int:
    for start, offset, length in loaded:
        if start <= address < start + length:
            return address - start + offset
    raise IndexError("an address outside the program")


def _read_text(program: bytes, at: int) -> str:
    return program[at : program.index(b"\0", at)].decode("utf-8", "replace")
