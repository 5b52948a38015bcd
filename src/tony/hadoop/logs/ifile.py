"""The indexed format of aggregated logs: one file for each node, the logs, and an index of them at the end.

The file begins with a mark (32 bytes; 36 in the oldest versions), then come the log files, each compressed by itself,
and after each round of aggregation the index of all rounds: an object of Java's serialization, its length (4 bytes),
and the mark again. During a round a second file, `<name>-checksum`, holds the length of the file before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from tony.hadoop.logs import java_serialization
from tony.hadoop.logs.java_serialization import JavaObject
from tony.hadoop.logs.log_files import (
    LogFileEntry,
    MalformedLogFileError,
    Opener,
    open_stretch,
    read_pieces,
    read_range,
)

#: Lengths of the mark, by version: a digest, before it a UUID as text.
_MARKS = (32, 36)
#: Of an index: some 100 bytes for each log file.
_MAX_INDEX_BYTES = 16 * 2**20
#: Ends the name of the file that tells how long the other one was.
CHECKSUM_SUFFIX = "-checksum"
_PACKAGE = "org.apache.hadoop.yarn.logaggregation.filecontroller.ifile.LogAggregationIndexedFileController$"


def list_entries(open_at: Opener, size: int) -> list[LogFileEntry]:
    """Return every log file in the order of the rounds; one that grew has an entry for each round, with its next bytes.

    Args:
        size: of the file, or how long it was before the round that is under way.

    Raises:
        MalformedLogFileError: none of this format, damaged, or a round is under way: then the checksum file says which
            size to try.
    """
    mark, length = _read_mark(open_at, size)
    end = size - mark - 4
    if not 0 < length <= min(_MAX_INDEX_BYTES, end - mark):
        raise MalformedLogFileError(f"claims an index of {length} bytes, which cannot be")
    index = java_serialization.load(read_range(open_at, end - length, end))
    return list(parse_index(open_at, index, end - length))


def read_checksum_length(data: bytes) -> int:
    """Return the length in a checksum file: the number alone, or after the name of the other file.

    Raises:
        MalformedLogFileError: neither of the two.
    """
    named = int.from_bytes(data[:4], "big")
    if len(data) == 8 or len(data) == 4 + named + 8:
        return int.from_bytes(data[-8:], "big", signed=True)
    raise MalformedLogFileError("is no checksum file of an aggregated log")


def _read_mark(open_at: Opener, size: int) -> tuple[int, int]:
    """Return the lengths of the marker and of the index; the marker at the end must equal the one at the start."""
    longest = max(_MARKS)
    if size < 2 * longest + 4:
        raise MalformedLogFileError(f"has {size} bytes only, too few for an index")
    start, end = read_range(open_at, 0, longest), read_range(open_at, size - longest - 4, size)
    for mark in reversed(_MARKS):
        if start[:mark] == end[-mark:]:
            return mark, int.from_bytes(end[-mark - 4 : -mark], "big")
    raise MalformedLogFileError("does not end with the mark that it begins with; perhaps it is still being written")


def parse_index(open_at: Opener, value: Any, limit: int) -> Iterator[LogFileEntry]:
    """Yield every log file of every round; references to one object again and again are no way to fill memory.

    Args:
        value: the index as Java's objects.
        limit: where the log files end in the file.
    """
    index = _require_fields(value, "IndexedLogsMeta")
    compression = _require_text(index, "compressName")
    seen = set[int]()
    for cycle in java_serialization.to_list(index.get("logMetas")):
        containers = _require_fields(cycle, "IndexedPerAggregationLogMeta").get("logMetas")
        for _, found in java_serialization.to_pairs(containers):
            if id(found) in seen:
                raise MalformedLogFileError("has an index that names the same logs twice")
            seen.add(id(found))
            for one in java_serialization.to_list(found):
                yield _parse_entry(open_at, compression, one, limit)


def _parse_entry(open_at: Opener, compression: str, value: Any, limit: int) -> LogFileEntry:
    fields = _require_fields(value, "IndexedFileLogMeta")
    name = _require_text(fields, "fileName")
    start = _require_number(fields, "startIndex")
    end = start + _require_number(fields, "fileCompressedSize")
    if end > limit:
        raise MalformedLogFileError(f"has a log file {name!r:.80} that lies outside of it")
    return LogFileEntry(
        container=_require_text(fields, "containerId"),
        name=name,
        length=_require_number(fields, "fileSize"),
        read=partial(_read, open_at, start, end, compression),
    )


def _read(open_at: Opener, start: int, end: int, compression: str, offset: int, length: int) -> Iterator[bytes]:
    source = open_stretch(open_at, start, end, compression)
    try:
        source.skip(offset)
        yield from read_pieces(source, length)
    finally:
        source.close()


def _require_fields(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, JavaObject) or value.type.name != _PACKAGE + name:
        raise MalformedLogFileError(f"has something else in its index where {name} belongs")
    return value.fields


def _require_text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise MalformedLogFileError(f"has an index without {name}")
    return value


def _require_number(fields: dict[str, Any], name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or value < 0:
        raise MalformedLogFileError(f"has an index without {name}")
    return value
