"""Avro container files are read, and hostile ones come to an end."""

from __future__ import annotations

import json
import zlib

import pytest

from tests.portal import legacy_histories as of
from tony.errors import RecordError
from tony.portal.histories.avro import read_records


def file(schema: object, blocks: bytes, codec: bytes = b"null") -> bytes:
    meta = of.long(2) + of.text("avro.schema") + of.text(json.dumps(schema)) + of.text("avro.codec")
    return b"Obj\x01" + meta + of.long(len(codec)) + codec + of.long(0) + b"s" * 16 + blocks


def block(count: int, data: bytes) -> bytes:
    return of.long(count) + of.long(len(data)) + data + b"s" * 16


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_records(codec: str) -> None:
    found = list(read_records(of.container(of.whole(), codec)))
    assert [each["type"] for each in found][:3] == ["APPLICATION_INITED", "TASK_STARTED", "TASK_STARTED"]
    assert found[4] == {
        "type": "TASK_FINISHED",
        "event": {
            "taskType": "worker",
            "taskIndex": 0,
            "status": "SUCCEEDED",
            "metrics": [{"name": "MAX_MEMORY_BYTES", "value": 5e8}],
            "containerDiagnostic": "NA",
        },
        "timestamp": of.BEGAN + 1_800_000,
    }


def test_types() -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "n", "type": "null"},
            {"name": "b", "type": "boolean"},
            {"name": "l", "type": {"type": "long"}},
            {"name": "m", "type": {"type": "map", "values": "int"}},
            {"name": "f", "type": {"type": "fixed", "name": "F", "size": 2}},
            {"name": "g", "type": "F"},
            {"name": "next", "type": ["null", "R"]},
        ],
    }
    inner = b"\1" + of.long(-3) + of.long(-1) + of.long(4) + of.text("k") + of.long(7) + of.long(0) + b"abcd"
    data = inner + of.long(1) + inner + of.long(0)
    (found,) = read_records(file(schema, block(1, data)))
    assert found["next"] == {"n": None, "b": True, "l": -3, "m": {"k": 7}, "f": b"ab", "g": b"cd", "next": None}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (file("null", block(10**12, b"")), "values"),
        (file({"type": "array", "items": "null"}, block(1, of.long(10**15))), "values"),
        (file("string", block(1, of.long(10**15))), "cut off"),
        (file("string", block(1, of.long(-5))), "cut off"),
        (file("long", block(1, b"\xff" * 20)), "is too long"),
        (file("nothing", b""), "unknown type 'nothing'"),
        (file({"type": "record", "name": "x"}, b""), "no fields"),
        (file(7, b""), "schema is invalid"),
        (file("string", block(1, b"x"), b"snappy"), "'snappy' is not supported"),
        (file("string", block(1, b"x"), b"deflate"), "cannot be decompressed"),
        (file("bytes", block(1, zlib.compress(b"\0" * (80 << 20), 9)[2:]), b"deflate"), "larger than 64 MiB"),
        (
            file("bytes", 5 * block(1, zlib.compress(of.long(60 << 20) + b"\0" * (60 << 20), 9)[2:-4]), b"deflate"),
            "blocks have more than 256 MiB",
        ),
        (
            file(
                {"type": "record", "name": "R", "fields": [{"name": f"f{n}", "type": "null"} for n in range(9000)]},
                block(1000, b""),
            ),
            "values",
        ),
        (file(["null", "string"], block(1, of.long(9))), "not in its schema"),
        (
            file(
                {"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]},
                block(1, of.long(1) * 100_000),
            ),
            "deep",
        ),
        (b"", "cut off"),
        (b"Oby", "not start like an Avro file"),
    ],
)
def test_hostile_files(data: bytes, why: str) -> None:
    """They are refused, soon and in little memory."""
    with pytest.raises(RecordError, match=why):
        for _ in read_records(data):
            pass


def test_a_deep_schema() -> None:
    schema: object = "null"
    for _ in range(100):
        schema = [schema]
    with pytest.raises(RecordError, match="deep"):
        list(read_records(file(schema, b"")))
