"""TFiles: real ones of a real NodeManager, made ones of any shape, and garbage."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hadoop.logs.memory_files import GOLDEN, MemoryFile
from tony.hadoop.logs import tfile
from tony.hadoop.logs.log_files import MalformedLogFileError

#: What the program in the golden files wrote.
STDOUT = 'hello <b>bold</b> & "quoted"\ngrüße '.encode() + b"\xff\xfe bytes\n"
NUMBERS = b"".join(b"%d\n" % number for number in range(1, 41))


def number(value: int) -> bytes:
    """TFile's number, the shortest way."""
    if -32 <= value < 128:
        return value.to_bytes(1, "big", signed=True)
    for size, bias, low in ((1, 52, -72), (2, 88, -104), (3, 112, -120)):
        first = (value >> (8 * size)) - bias
        if low <= first <= low + (31 if size < 3 else 15) and (size > 1 or first < -32):
            return first.to_bytes(1, "big", signed=True) + (value & ((1 << 8 * size) - 1)).to_bytes(size, "big")
    size = next(size for size in range(4, 9) if -(2 ** (8 * size - 1)) <= value < 2 ** (8 * size - 1))
    return (size - 129).to_bytes(1, "big", signed=True) + value.to_bytes(size, "big", signed=True)


def text(value: str) -> bytes:
    return number(len(value.encode())) + value.encode()


def java_text(value: str) -> bytes:
    return len(value.encode()).to_bytes(2, "big") + value.encode()


def record(key: str, value: bytes, chunk: int) -> bytes:
    """Key and value; the value in chunks of a size, of which the last says that it is."""
    parts = [value[at : at + chunk] for at in range(0, len(value), chunk)] or [b""]
    chunks = [number(-len(part)) + part for part in parts[:-1]] + [number(len(parts[-1])) + parts[-1]]
    return number(len(java_text(key))) + java_text(key) + b"".join(chunks)


def log_files(files: dict[str, bytes]) -> bytes:
    return b"".join(java_text(name) + java_text(str(len(data))) + data for name, data in files.items())


def make(blocks: list[list[tuple[str, bytes]]], compression: str = "none", chunk: int = 1000) -> bytes:
    pack = zlib.compress if compression == "gz" else bytes
    data = tfile.MAGIC
    regions = []
    for block in blocks:
        plain = b"".join(record(key, value, chunk) for key, value in block)
        stored = pack(plain)
        regions.append(number(len(data)) + number(len(stored)) + number(len(plain)))
        data += stored
    plain = text(compression) + number(len(regions)) + b"".join(regions)
    stored = pack(plain)
    where = number(len(data)) + number(len(stored)) + number(len(plain))
    data += stored
    meta = number(1) + text("data:BCFile.index") + text(compression) + where
    at = len(data)
    return data + meta + at.to_bytes(8, "big") + b"\0\1\0\0" + tfile.MAGIC


def contents(file: MemoryFile) -> dict[tuple[str, str], bytes]:
    return {
        (entry.container, entry.name): b"".join(entry.read(0, entry.length))
        for entry in tfile.iterate_entries(file, len(file.data))
    }


@pytest.mark.parametrize("name", ["tfile-none", "tfile-gz"])
def test_a_real_one(name: str) -> None:
    """What Hadoop 3.4.2's NodeManager wrote, of an application with two attempts."""
    file = MemoryFile((GOLDEN / name).read_bytes())
    found = contents(file)
    application = {"tfile-none": "0005", "tfile-gz": "0006"}[name]
    containers = [f"container_1795272430499_{application}_{attempt}_000001" for attempt in ("01", "02")]
    names = ["empty", "numbers.log", "prelaunch.err", "prelaunch.out", "stderr", "stdout"]
    assert sorted(found) == [(container, name) for container in containers for name in names]
    for container in containers:
        assert found[container, "stdout"] == STDOUT
        assert found[container, "numbers.log"] == NUMBERS
        assert found[container, "stderr"] == b"to stderr\n"
        assert found[container, "empty"] == b""


@given(
    blocks=st.lists(
        st.lists(
            st.tuples(st.text(max_size=5), st.dictionaries(st.text(max_size=5), st.binary(max_size=300), max_size=3)),
            max_size=3,
        ),
        max_size=3,
    ),
    compression=st.sampled_from(["none", "gz"]),
    chunk=st.integers(1, 400),
    offset=st.integers(0, 320),
    length=st.integers(0, 320),
)
def test_any_shape(
    blocks: list[list[tuple[str, dict[str, bytes]]]], compression: str, chunk: int, offset: int, length: int
) -> None:
    """Blocks, records and chunks of any size; every log file reads back, from any offset."""
    made = make([[(key, log_files(files)) for key, files in block] for block in blocks], compression, chunk)
    file = MemoryFile(made)
    expected = [
        (key, name, data[offset : offset + length])
        for block in blocks
        for key, files in block
        for name, data in files.items()
    ]
    found = [
        (entry.container, entry.name, b"".join(entry.read(at, max(0, min(length, entry.length - at)))))
        for entry in tfile.iterate_entries(file, len(made))
        for at in (min(offset, entry.length),)
    ]
    assert found == expected


@given(value=st.integers(-(2**63), 2**63 - 1))
def test_numbers(value: int) -> None:
    data = number(value)
    read = iter(data)
    assert tfile.read_number(lambda size: bytes(next(read) for _ in range(size))) == value
    assert list(read) == []


def test_a_long_log_needs_little() -> None:
    """The end of a file of megabytes is read with few requests, and a far offset without what lies before it."""
    data = bytes(range(256)) * 4096 * 12
    file = MemoryFile(make([[("c", log_files({"a": data, "b": b"the end"}))]], chunk=2**23))
    entries = list(tfile.iterate_entries(file, len(file.data)))
    assert [(entry.name, entry.length) for entry in entries] == [("a", len(data)), ("b", 7)]
    file.opened = 0
    assert b"".join(entries[1].read(0, 7)) == b"the end"
    assert file.opened <= 8
    assert b"".join(entries[0].read(len(data) - 5, 5)) == data[-5:]


@pytest.mark.parametrize("compression", ["none", "gz"])
def test_a_read_costs_one_request(compression: str) -> None:
    """None where there is nothing to read."""
    files = {"a": b"the start", "empty": b"", "b": b"the end"}
    file = MemoryFile(make([[("VERSION", b"1"), ("c", log_files(files))]], compression))
    entries = list(tfile.iterate_entries(file, len(file.data)))
    requests = []
    for entry in entries:
        file.opened = 0
        assert b"".join(entry.read(0, entry.length)) == files[entry.name]
        requests.append(file.opened)
    assert requests == [1, 0, 1]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "0 bytes only"),
        (tfile.MAGIC * 3, "of version"),
        (tfile.MAGIC + b"x" * 100, "mark at its end is missing"),
        (make([])[:-1], "mark at its end is missing"),
        (make([], "lzo"), "lzo"),
    ],
)
def test_malformed_files_are_refused(data: bytes, message: str) -> None:
    """Files of another kind, half written ones, and other compressions have different messages."""
    with pytest.raises(MalformedLogFileError, match=message):
        contents(MemoryFile(data))


@settings(max_examples=300)
@given(data=st.data())
def test_damage(data: st.DataObject) -> None:
    """Whatever is changed in or cut from a real file, it is read or refused: no other error, no hanging."""
    name = data.draw(st.sampled_from(["tfile-none", "tfile-gz"]))
    content = bytearray((GOLDEN / name).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        contents(MemoryFile(bytes(content)))
    except MalformedLogFileError:
        pass


@settings(max_examples=300)
@given(index=st.binary(max_size=60), block=st.binary(max_size=60))
def test_garbage_inside(index: bytes, block: bytes) -> None:
    """Random bytes where the index and the records belong, with all around them in order."""
    meta = number(1) + text("data:BCFile.index") + text("none") + number(16) + number(len(index)) + number(len(index))
    whole = tfile.MAGIC + index + meta + (16 + len(index)).to_bytes(8, "big") + b"\0\1\0\0" + tfile.MAGIC
    made = make([[("c", b"")]])
    region = number(16) + number(len(block)) + number(len(block))
    blocks = tfile.MAGIC + block + text("none") + number(1) + region
    at = 16 + len(block)
    size = len(blocks) - at
    meta_of_blocks = number(1) + text("data:BCFile.index") + text("none") + number(at) + number(size) + number(size)
    garbled = blocks + meta_of_blocks + len(blocks).to_bytes(8, "big") + b"\0\1\0\0" + tfile.MAGIC
    for one in (whole, garbled, made[:16] + block + made[16:]):
        try:
            contents(MemoryFile(one))
        except MalformedLogFileError:
            pass
