"""Hostile files of Hadoop's formats: event files of LinkedIn TonY (Avro), and aggregated logs (TFile, IFile)."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable

from tests.hadoop.logs.memory_files import GOLDEN, MemoryFiles
from tests.hadoop.logs.test_tfile import java_text, number, record, text
from tests.portal import legacy_histories
from tony.errors import TonyError
from tony.hadoop.logs import java_serialization, tfile
from tony.hadoop.logs.aggregated_logs import AggregatedLogLocation, AggregatedLogs
from tony.hadoop.logs.log_files import MalformedLogFileError
from tony.model.state_directory import JobFolder

_APPLICATION = "application_1795272430499_12345"


def _events(*events: bytes, settings: str = legacy_histories.SETTINGS) -> Callable[[JobFolder], None]:
    """A job of LinkedIn TonY in place of ours."""

    def write(folder: JobFolder) -> None:
        for path in folder.path.iterdir():
            if path.is_file():
                path.unlink()
        (folder.path / legacy_histories.ended_name()).write_bytes(legacy_histories.container(events, "deflate"))
        (folder.path / "tony-final.xml").write_text(settings)

    return write


def _metrics(count: int) -> bytes:
    """A task that ended with so many numbers."""
    item = legacy_histories.text("m") + bytes(8)
    body = legacy_histories.text("worker") + legacy_histories.long(0) + legacy_histories.text("SUCCEEDED")
    body += legacy_histories.long(count) + item * count + legacy_histories.long(0) + legacy_histories.maybe(None)
    return legacy_histories.event("TASK_FINISHED", body, legacy_histories.BEGAN)


def _started(count: int) -> Iterable[bytes]:
    return (legacy_histories.started("worker", n % 100, legacy_histories.BEGAN, f"node{n}") for n in range(count))


def _logs(make: Callable[[], bytes]) -> Callable[[JobFolder], None]:
    return lambda folder: _aggregated(folder, make())


def _aggregated(folder: JobFolder, content: bytes) -> None:
    (folder.path / "aggregated").write_bytes(content)


def _tfile(block: bytes, stored: bytes, blocks: int = 1) -> bytes:
    """A TFile whose index names one block again and again."""
    region = number(len(tfile.MAGIC)) + number(len(stored)) + number(len(block))
    index = text("gz") + number(blocks) + region * blocks
    data = tfile.MAGIC + stored
    meta = number(1) + text("data:BCFile.index") + text("none")
    meta += number(len(data)) + number(len(index)) + number(len(index))
    data += index
    return data + meta + len(data).to_bytes(8, "big") + b"\0\1\0\0" + tfile.MAGIC


def _many_blocks() -> bytes:
    return _tfile(b"", zlib.compress(b""), 900_000)


def _many_logs() -> bytes:
    block = record("container_1", (java_text("log") + java_text("0")) * 300_000, 1 << 20)
    return _tfile(block, zlib.compress(block))


def _long_name() -> bytes:
    """A log that claims to be longer than all disks."""
    block = record("container_1", java_text("log") + java_text("9" * 19) + b"x" * (50 << 20), 1 << 20)
    return _tfile(block, zlib.compress(block, 1))


def _java(objects: bytes) -> bytes:
    """An indexed file whose index is a list of objects."""
    mark = (GOLDEN / "ifile-none").read_bytes()[:32]
    data = java_serialization.MAGIC + objects
    return mark + data + len(data).to_bytes(4, "big") + mark


def _many_objects() -> bytes:
    # An object whose class adds its own data: objects of the same class, seven bytes each.
    described = b"\x72" + (1).to_bytes(2, "big") + b"C" + bytes(8) + b"\x03" + bytes(2) + b"\x78\x70"
    reference = b"\x71" + (0x7E0000).to_bytes(4, "big")
    count = (15 << 20) // 7
    return _java(b"\x73" + described + (b"\x73" + reference + b"\x78") * count + b"\x78")


CASES: dict[str, Callable[[JobFolder], None]] = {
    "avro-index": _events(
        legacy_histories.inited(), legacy_histories.started("worker", 99_999, legacy_histories.BEGAN)
    ),
    "avro-roles": _events(*(legacy_histories.started(f"r{n}", 900, legacy_histories.BEGAN) for n in range(100))),
    "avro-settings": _events(settings=legacy_histories.SETTINGS.replace("<value>2<", "<value>99999<")),
    "avro-metrics": lambda folder: _events(_metrics(1_000_000))(folder),
    "avro-events": lambda folder: _events(*_started(120_000))(folder),
    "tfile-blocks": _logs(_many_blocks),
    "tfile-logs": _logs(_many_logs),
    "tfile-long": _logs(_long_name),
    "ifile-objects": _logs(_many_objects),
}


def read_aggregated(folder: JobFolder) -> None:
    """Look for the logs in the file that a case has left, and read them."""
    path = folder.path / "aggregated"
    if not path.exists():
        return
    files = MemoryFiles({f"/logs/ann/logs/{_APPLICATION}/host_1": path.read_bytes()})
    logs = AggregatedLogs(files, [AggregatedLogLocation(folder="/logs", suffix="logs")])
    try:
        for log in logs.find(_APPLICATION, "ann"):
            print(log.name, sum(map(len, logs.read(log))))
    except (TonyError, MalformedLogFileError) as error:
        print(error)
