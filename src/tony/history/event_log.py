"""The event log: what happened to a job, in order, as JSON lines. Recovery, history and replay read the same file.

There is one segment per AM attempt, `events.<attempt>.jsonl`. Its first line is a header:

    {"format": "tony-events", "version": 2, "job": "...", "attempt": 1, "settings": "<digest>"}

Every other line is one event:

    {"seq": 7, "at": 0.412, "wall": 1763712000.1, "event": "granted", "data": {...}}

`seq` is dense across AM attempts; `at` is seconds since the job was accepted; `wall` is seconds since 1970 and
informational only.

Durability: `flush` passes everything to the kernel, so the log survives the death of the process. It does not fsync:
on the `local` scheduler a machine that loses power has lost the job as well.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from tony.core.events import EVENTS, Event
from tony.errors import NewerRecordError, RecordError, StorageError
from tony.linux.disk_errors import build_storage_error
from tony.linux.files import open_file
from tony.model.codec import DecodeError, Json, from_plain, to_plain
from tony.model.job_spec import JobSpec, Role
from tony.model.masking import redact
from tony.model.state_directory import JobFolder, build_segment_name
from tony.model.strict_json import loads

FORMAT = "tony-events"
VERSION = 3
#: Bytes. A frame from a peer has at most 1 MiB; encoded as ASCII it is at most three times as long.
MAX_LINE_BYTES = 4 << 20
#: Bytes of all segments of another user's log that are read to replay a job. In memory it takes three times as much.
MAX_FOREIGN_LOG_BYTES = 32 << 20
#: The same limit for listing and searching events, which needs no replay.
MAX_FOREIGN_LISTED_LOG_BYTES = 1 << 30
#: Seconds; no valid event is later than this.
_MAX_TIME_SECONDS = 1e10

_ENCODER = json.JSONEncoder(allow_nan=False, check_circular=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """One logged event."""

    seq: int
    at: float
    wall: float
    attempt: int
    event: Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The first line of a segment."""

    format: str
    version: int
    job: str
    attempt: int
    settings: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """Any line but the header."""

    seq: int
    at: float
    wall: float
    event: str
    data: Json


class LogWriter:
    """Appends events to one new segment; the header is written immediately.

    Args:
        path: must not exist: two writers would interleave their lines.
        first_seq: number of the first event.

    Raises:
        StorageError: the file cannot be created.
    """

    def __init__(self, path: Path, header: Header, first_seq: int = 1) -> None:
        self._path = path
        self._next = first_seq
        self._size = 0
        self._pending: list[bytes] = [_line(to_plain(header))]
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise build_storage_error(f"create the event log {path}", path.parent, error) from error
        try:
            self.flush()
        except StorageError:
            os.close(self._fd)
            raise

    @property
    def size(self) -> int:
        """Bytes passed to the kernel so far."""
        return self._size

    def append(self, event: Event, at: float, wall: float) -> int:
        """Buffer one event and return its number. It is durable only after `flush`.

        Raises:
            RecordError: the encoded event exceeds `MAX_LINE_BYTES`.
        """
        seq = self._next
        line = _line({"seq": seq, "at": at, "wall": wall, "event": event.kind, "data": to_plain(event)})
        if len(line) > MAX_LINE_BYTES:
            raise RecordError(f"event {event.kind} is too long for {self._path}: {len(line)} bytes")
        self._next += 1
        self._pending.append(line)
        return seq

    def flush(self) -> None:
        """Pass everything appended so far to the kernel, in one write.

        Raises:
            StorageError: the disk is full or unavailable.
        """
        if not self._pending:
            return
        data = memoryview(b"".join(self._pending))
        self._pending.clear()
        try:
            while data:
                written = os.write(self._fd, data)
                self._size += written
                data = data[written:]
        except OSError as error:
            raise build_storage_error(f"write the event log {self._path}", self._path.parent, error) from error

    def close(self) -> None:
        """Flush and close the file."""
        try:
            self.flush()
        finally:
            os.close(self._fd)


def read(segments: Iterable[Path]) -> Iterator[LogEntry]:
    """Yield every event of a job, oldest first.

    A torn last line of a segment is skipped: the AM never acted upon it. An empty segment, without even a header,
    belongs to an AM attempt that died before it could write.

    Raises:
        RecordError: a line is invalid; the message names file and line.
        StorageError: a segment cannot be read.
    """
    for path, number, line, attempt in read_lines(segments):
        yield decode_entry(f"{path}:{number}", line, attempt)


def place_of(segments: Iterable[Path], number: int) -> str:
    """Return "FILE:LINE" of the n-th event of a log, counted from 1; of the last event if there are fewer.

    Raises:
        RecordError, StorageError: as `read`.
    """
    place = ""
    for found, (path, line, _, _) in enumerate(read_lines(segments), start=1):
        place = f"{path}:{line}"
        if found == number:
            break
    return place


def read_lines(segments: Iterable[Path]) -> Iterator[tuple[Path, int, bytes, int]]:
    """Yield path, line number (from 1), line and AM attempt of every complete line except headers. Raises as `read`."""
    for path in segments:
        for number, line, attempt in _SegmentReader(path).read_new():
            yield path, number, line, attempt


class _SegmentReader:
    """Reads every complete line of one segment once, over several calls.

    Attributes:
        offset: of the next line, in bytes.
    """

    def __init__(self, path: Path) -> None:
        self.offset = 0
        self._path = path
        self._line = 0
        self._attempt = 0

    def read_new(self) -> Iterator[tuple[int, bytes, int]]:
        """Yield number, line and AM attempt of the lines behind the header that were completed since the last call."""
        with open_segment(self._path) as file:
            file.seek(self.offset)
            while (line := file.readline(MAX_LINE_BYTES)).endswith(b"\n"):
                self.offset += len(line)
                self._line += 1
                if self._line == 1:
                    self._attempt = _parse_header(self._path, line).attempt
                else:
                    yield self._line, line, self._attempt
        # Only the last line may be incomplete: torn, or not fully written yet.
        if len(line) >= MAX_LINE_BYTES:
            raise RecordError(f"{self._path}:{self._line + 1}: line is longer than {MAX_LINE_BYTES} bytes")
        if self._line == 0 and not _MAGIC.startswith(line[: len(_MAGIC)]):
            _parse_header(self._path, line)


def settings_digest(spec: JobSpec) -> str:
    """Return a digest of the settings that influence decisions; equal with and without secrets.

    Left out are tags, permissions, notifications, environment variables, parameters and scheduler settings (which may
    hold secrets), `orphan_grace`, `am_attempts` and `on_interrupt`. Settings at their default are left out, too,
    so that settings added by a later version do not change the digest.
    """
    spec = redact(spec)  # of commands
    roles = {name: replace(role, env={}) for name, role in spec.roles.items()}
    defaults = JobSpec()
    relevant = replace(
        spec,
        tags=(),
        viewers=(),
        editors=(),
        env={},
        secret=(),
        container_env={},
        params={},
        scheduler_settings={},
        roles={},
        orphan_grace=defaults.orphan_grace,
        am_attempts=defaults.am_attempts,
        notify=defaults.notify,
        on_interrupt=defaults.on_interrupt,
    )
    content = {
        "job": _differences(relevant, JobSpec()),
        "roles": {n: _differences(r, Role()) for n, r in roles.items()},
    }
    # The order of roles determines ranks, so keys are not sorted here; dataclass fields have a fixed order.
    return hashlib.sha256(_ENCODER.encode(content).encode()).hexdigest()


def _differences(value: JobSpec | Role, default: JobSpec | Role) -> dict[str, Json]:
    plain, defaults = to_plain(value), to_plain(default)
    found = {name: plain[name] for name in sorted(plain) if plain[name] != defaults[name]}
    resources = found.get("resources")
    if isinstance(resources, dict) and not resources.get("others"):  # this field was added later
        del resources["others"]
    return found


def segments(folder: Path) -> list[Path]:
    """Return the event log segments in a job directory, oldest AM attempt first."""
    found: list[Path] = []
    while (path := folder / build_segment_name(len(found) + 1)).exists():
        found.append(path)
    return found


def compute_size(folder: Path) -> int:
    """Return the bytes of all segments in a job directory."""
    size = 0
    for path in segments(folder):
        with contextlib.suppress(OSError):
            size += path.lstat().st_size
    return size


def check_foreign_length(folder: Path, most: int = MAX_FOREIGN_LOG_BYTES) -> None:
    """Refuse another user's event log if it is too large, without reading it.

    Args:
        most: maximum size of all segments, in bytes.

    Raises:
        RecordError: it is larger.
    """
    size = compute_size(folder)
    if size > most:
        raise RecordError(
            f"the event log in {folder} is too large: {size >> 20:,} MiB. For jobs of other users the limit is "
            f"{most >> 20:,} MiB here, and {MAX_FOREIGN_LISTED_LOG_BYTES >> 20:,} MiB to list events."
        )


#: The first bytes of every segment.
_MAGIC = _ENCODER.encode({"format": FORMAT})[:-1].encode()


@contextmanager
def open_segment(path: Path) -> Iterator[BinaryIO]:
    """Open a segment for reading.

    Raises:
        StorageError: it cannot be read.
    """
    try:
        file = os.fdopen(open_file(path), "rb")
    except OSError as error:
        raise StorageError(f"cannot read the event log {path}: {error.strerror}") from error
    with file:
        try:
            yield file
        except OSError as error:
            raise StorageError(f"cannot read the event log {path}: {error.strerror}") from error


def _line(plain: Json) -> bytes:
    return _ENCODER.encode(plain).encode() + b"\n"


def _parse_header(path: Path, line: bytes) -> Header:
    try:
        header = from_plain(Header, loads(line, halves=True), ignore_unknown=True)
    except ValueError as error:
        raise RecordError(f"{path} is not an event log: {error}") from None
    if header.format != FORMAT:
        raise RecordError(f"{path} is not an event log: its format is {header.format!r:.80}")
    if header.version < VERSION:
        raise RecordError(f"{path} has version {header.version}; this tony reads version {VERSION} only")
    if header.version > VERSION:
        raise NewerRecordError(
            f"{path} has version {header.version}; this tony reads up to {VERSION}. Use a newer tony to read this job."
        )
    return header


def decode_entry(where: str, line: bytes, attempt: int) -> LogEntry:
    """Decode one event from its line.

    Args:
        where: file and line, for the error message.

    Raises:
        RecordError: the line is not a valid event.
    """
    try:
        plain = from_plain(_Line, loads(line, halves=True), ignore_unknown=True)
        if not 0 <= plain.at < _MAX_TIME_SECONDS:
            raise DecodeError(f"at {plain.at:.3g} s")
        kind = EVENTS.get(plain.event)
        if kind is None:
            raise DecodeError(f"unknown event {plain.event[:80]!a}")
        event = from_plain(kind, plain.data, ignore_unknown=True)
    except ValueError as error:
        raise RecordError(f"{where}: not an event: {error!s:.200}") from None
    return LogEntry(seq=plain.seq, at=plain.at, wall=plain.wall, attempt=attempt, event=event)


class EventTail:
    """Reads every event of a job once, over several calls."""

    def __init__(self, folder: JobFolder) -> None:
        self._folder = folder
        self._completed_segments = 0
        self._reader: _SegmentReader | None = None

    @property
    def continues(self) -> bool:
        """Return True if the log was neither removed nor truncated since the last read."""
        offset = self._reader.offset if self._reader else 0
        found = segments(self._folder.path)
        try:
            return offset == 0 or found[self._completed_segments].stat().st_size >= offset
        except (IndexError, OSError):
            return False

    def read_new(self) -> Iterator[LogEntry]:
        """Yield the events logged since the last call. An incomplete last line is left for the next call.

        Raises:
            RecordError: not a valid event log, or written by a newer version; the message names file and line.
            StorageError: it cannot be read.
        """
        found = segments(self._folder.path)
        for path in found[self._completed_segments :]:
            reader = self._reader = self._reader or _SegmentReader(path)
            for number, line, attempt in reader.read_new():
                yield decode_entry(f"{path}:{number}", line, attempt)
            if path is not found[-1]:  # a later AM attempt writes its own segment, so this one is complete
                self._completed_segments, self._reader = self._completed_segments + 1, None
