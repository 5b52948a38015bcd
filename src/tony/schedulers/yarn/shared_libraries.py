"""What a program for Linux says of the shared libraries that it needs, and another place to look for them.

Facts: the ELF format (elf.h), 64 bits, little-endian, as on x86-64 and ARM.
"""

from __future__ import annotations

import struct

from tony.dataclass import dataclass

_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NULL, _DT_NEEDED, _DT_STRTAB, _DT_RPATH, _DT_RUNPATH = 0, 1, 5, 15, 29
_MAGIC = b"\x7fELF\x02\x01"
_HEADER, _SEGMENT, _ENTRY = struct.Struct("<32xQ14xHH"), struct.Struct("<I4xQQ8xQ16x"), struct.Struct("<qQ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Libraries:
    """What a program says.

    Attributes:
        needed: names of libraries.
        path: folders to look in, divided by `:`; None if it names none.
        path_at: where in the file that text begins; the byte after it is 0.
    """

    needed: tuple[str, ...] = ()
    path: str | None = None
    path_at: int = 0


def libraries(program: bytes) -> Libraries:
    """Reads it.

    Raises:
        ValueError: this is no such program.
    """
    if not program.startswith(_MAGIC):
        raise ValueError("it is no program for 64-bit Linux")
    try:
        return _read(program)
    except (struct.error, IndexError, OverflowError) as error:
        raise ValueError(f"it is a damaged program ({error})") from error


def looking_in(program: bytes, folders: str) -> bytes:
    """The program with other folders to look in. They must not be longer than those it has.

    Raises:
        ValueError: there is no room for them.
    """
    found, new = libraries(program), folders.encode()
    if found.path is None or len(found.path.encode()) < len(new):
        raise ValueError(f"it has no room for the place of its libraries ({found.path or 'it names none'})")
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
    strings = _offset(values[_DT_STRTAB], loaded)
    # Where both are there, DT_RUNPATH counts.
    at = values.get(_DT_RUNPATH, values.get(_DT_RPATH))
    return Libraries(
        needed=tuple(_text(program, strings + value) for tag, value in entries if tag == _DT_NEEDED),
        path=None if at is None else _text(program, strings + at),
        path_at=0 if at is None else strings + at,
    )


def _offset(address: int, loaded: list[tuple[int, int, int]]) -> int:
    for start, offset, length in loaded:
        if start <= address < start + length:
            return address - start + offset
    raise IndexError("an address outside of it")


def _text(program: bytes, at: int) -> str:
    return program[at : program.index(b"\0", at)].decode("utf-8", "replace")
