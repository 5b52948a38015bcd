"""What a program says of its shared libraries, against programs of this machine and garbage."""

import random
import struct
import sys
from pathlib import Path

import pytest

from tony.schedulers.shipping.elf_libraries import Libraries, read_libraries, with_search_path

STRINGS = b"\0libpython3.11.so.1.0\0libc.so.6\0/home/ann/python/lib\0rest"


def program(*, path_tag: int | None = 29) -> bytes:
    """As small as one can be: a header, two segments, a table of four entries, its strings."""
    entries = [(1, STRINGS.index(b"libpython")), (1, STRINGS.index(b"libc")), (5, 0x1000 + 512)]
    if path_tag is not None:
        entries.append((path_tag, STRINGS.index(b"/home")))
    table = b"".join(struct.pack("<qQ", *entry) for entry in [*entries, (0, 0), (1, 999_999)])
    header = (
        b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    )
    load = struct.pack("<IIQQQQQQ", 1, 4, 0, 0x1000, 0x1000, 1024, 1024, 4096)
    dynamic = struct.pack("<IIQQQQQQ", 2, 6, 256, 0x1100, 0x1100, len(table), len(table), 8)
    content = (header + load + dynamic).ljust(256, b"\0") + table
    return content.ljust(512, b"\0") + STRINGS.ljust(512, b"\0")


@pytest.mark.parametrize("tag", [15, 29])
def test_needs_and_places(tag: int) -> None:
    """Old and new ways to name a folder."""
    assert read_libraries(program(path_tag=tag)) == Libraries(
        needed=("libpython3.11.so.1.0", "libc.so.6"),
        path="/home/ann/python/lib",
        path_at=512 + STRINGS.index(b"/home"),
    )


def test_no_place() -> None:
    assert read_libraries(program(path_tag=None)) == Libraries(needed=("libpython3.11.so.1.0", "libc.so.6"))


def test_another_place() -> None:
    changed = with_search_path(program(), "$ORIGIN/../lib")
    assert read_libraries(changed).path == "$ORIGIN/../lib"
    assert read_libraries(changed).needed == read_libraries(program()).needed
    assert len(changed) == len(program())
    assert sum(a != b for a, b in zip(changed, program(), strict=True)) <= len("/home/ann/python/lib")


@pytest.mark.parametrize(
    ("given", "folder", "message"),
    [
        (
            program(),
            "$ORIGIN/" + "x" * 40,
            r"its RPATH is too short for the path of its libraries \(/home/ann/python/lib\)",
        ),
        (program(path_tag=None), "x", r"its RPATH is too short for the path of its libraries \(it has none\)"),
        (b"#!/bin/sh\n", "x", r"it is not a 64-bit Linux program \(ELF\)"),
        (b"\x7fELF\x01\x01" + bytes(100), "x", r"it is not a 64-bit Linux program \(ELF\)"),
    ],
)
def test_refused(given: bytes, folder: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        with_search_path(given, folder)


def test_of_this_machine() -> None:
    needed = read_libraries(Path(sys.executable).resolve().read_bytes()).needed
    assert any(name.startswith("libc.") for name in needed)


def test_garbage() -> None:
    """Damaged programs are refused, or read as far as they go; nothing else happens."""
    dice = random.Random(3)
    for _ in range(2000):
        damaged = bytearray(program())
        for _ in range(dice.randrange(1, 6)):
            damaged[dice.randrange(6, 400)] = dice.randrange(256)
        content = bytes(damaged[: dice.choice((len(damaged), dice.randrange(len(damaged))))])
        try:
            read_libraries(content)
        except ValueError:
            pass
