"""The indexed format: real files of a real NodeManager, several rounds, rounds under way, and garbage."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hadoop.logs.memory_files import GOLDEN, MemoryFile
from tests.hadoop.logs.test_tfile import NUMBERS, STDOUT
from tony.hadoop.logs import ifile, java_serialization
from tony.hadoop.logs.java_serialization import JavaEnum, JavaObject
from tony.hadoop.logs.log_files import MalformedLogFileError


def contents(file: MemoryFile) -> dict[tuple[str, str], bytes]:
    """Every log file of an indexed file."""
    return {
        (entry.container, entry.name): b"".join(entry.read(0, entry.length))
        for entry in ifile.list_entries(file, len(file.data))
    }


@pytest.mark.parametrize("name", ["ifile-none", "ifile-gz"])
def test_a_real_one(name: str) -> None:
    """What Hadoop 3.4.2's NodeManager wrote, of an application with two attempts."""
    file = MemoryFile((GOLDEN / name).read_bytes())
    found = contents(file)
    application = {"ifile-none": "0007", "ifile-gz": "0008"}[name]
    containers = [f"container_1795272430499_{application}_{attempt}_000001" for attempt in ("01", "02")]
    names = ["empty", "numbers.log", "prelaunch.err", "prelaunch.out", "stderr", "stdout"]
    assert sorted(found) == [(container, name) for container in containers for name in names]
    for container in containers:
        assert found[container, "stdout"] == STDOUT
        assert found[container, "numbers.log"] == NUMBERS
        assert found[container, "empty"] == b""


def test_offsets() -> None:
    """Any part of a log file reads as the part that it is."""
    for name in ("ifile-none", "ifile-gz"):
        file = MemoryFile((GOLDEN / name).read_bytes())
        entry = next(entry for entry in ifile.list_entries(file, len(file.data)) if entry.name == "numbers.log")
        for offset, length in ((0, 5), (50, 7), (110, 1), (111, 0), (3, 0)):
            found = b"".join(entry.read(offset, length))
            assert found == NUMBERS[offset : offset + length]


def test_a_round_under_way() -> None:
    """What follows the last whole round is no index; the length of before gives the one that holds."""
    before = (GOLDEN / "ifile-none").read_bytes()
    file = MemoryFile(before + b"\nthe next round's first lo")
    with pytest.raises(MalformedLogFileError, match="still being written"):
        ifile.list_entries(file, len(file.data))
    assert len(ifile.list_entries(file, len(before))) == 12


@pytest.mark.parametrize("data", [(2221).to_bytes(8, "big"), b"\0\0\0\4node" + (2221).to_bytes(8, "big")])
def test_checksum_files(data: bytes) -> None:
    """The length alone, as old versions wrote it, and with the file's name."""
    assert ifile.read_checksum_length(data) == 2221
    with pytest.raises(MalformedLogFileError):
        ifile.read_checksum_length(data + b"x")


@settings(max_examples=400)
@given(data=st.data())
def test_damage(data: st.DataObject) -> None:
    """Whatever is changed in or cut from a real file, it is read or refused: no other error, no hanging."""
    name = data.draw(st.sampled_from(["ifile-none", "ifile-gz"]))
    content = bytearray((GOLDEN / name).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        contents(MemoryFile(bytes(content)))
    except MalformedLogFileError:
        pass


@settings(max_examples=400)
@given(data=st.binary(max_size=200))
def test_garbage_as_objects(data: bytes) -> None:
    """Random bytes behind the magic of Java's serialization are read or refused."""
    for whole in (data, java_serialization.MAGIC + data, java_serialization.MAGIC + b"sr\0\1A" + data):
        try:
            java_serialization.load(whole)
        except MalformedLogFileError:
            pass


def _java_class(name: bytes, flags: int, fields: bytes = b"\0\0") -> bytes:
    return b"r" + len(name).to_bytes(2, "big") + name + bytes(8) + bytes([flags]) + fields + b"xp"


def test_other_objects() -> None:
    """Strings, nulls, enums and references, by the specification's grammar."""
    load = java_serialization.load
    assert load(java_serialization.MAGIC + b"t\0\3abc") == "abc"
    assert load(java_serialization.MAGIC + b"p") is None
    enum = load(java_serialization.MAGIC + b"~" + _java_class(b"E", 18) + b"t\0\3ONE")
    assert enum == JavaEnum(type="E", name="ONE")
    point = load(
        java_serialization.MAGIC
        + b"s"
        + _java_class(b"P", 2, b"\0\2I\0\1xJ\0\1y")
        + bytes(3)
        + b"\7"
        + bytes(7)
        + b"\x09"
    )
    assert isinstance(point, JavaObject)
    assert point.fields == {"x": 7, "y": 9}


@pytest.mark.parametrize(
    "data",
    [
        b"\xac\xed\0\4p",
        java_serialization.MAGIC,
        java_serialization.MAGIC + b"pp",
        java_serialization.MAGIC + b"q\0~\0\0",
        java_serialization.MAGIC + b"w\5hello",
        java_serialization.MAGIC + b"s" + _java_class(b"X", 4),
        java_serialization.MAGIC + b"ur\0\2[J" + bytes(8) + b"\2\0\0xp\x7f\xff\xff\xff",
        java_serialization.MAGIC + b"ur\0\2[L" + bytes(8) + b"\2\0\0xp\0\0\0\1" * 200,
        java_serialization.MAGIC + b"v",
    ],
)
def test_malformed_data_is_refused(data: bytes) -> None:
    """Other versions, dangling references, bare bytes, classes with their own format, excessive sizes and depths."""
    with pytest.raises(MalformedLogFileError):
        java_serialization.load(data)


def test_references_are_no_bomb() -> None:
    """An index of a few bytes that names one list of logs again and again is refused, not multiplied."""
    real = (GOLDEN / "ifile-none").read_bytes()
    value = java_serialization.load(_index_bytes(real))
    cycles = java_serialization.to_list(value.fields["logMetas"])
    assert len(cycles) == 1
    added = value.fields["logMetas"].more["java.util.ArrayList"]
    added.append(added[-1])
    value.fields["logMetas"].fields["size"] = 2
    with pytest.raises(MalformedLogFileError, match="twice"):
        list(ifile.parse_index(MemoryFile(real), value, len(real)))


def _index_bytes(real: bytes) -> bytes:
    length = int.from_bytes(real[-36:-32], "big")
    return real[-36 - length : -36]
