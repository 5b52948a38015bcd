"""The event log: what happened to a job, in order, as JSON lines. Recovery, history and replay read the same file.

One segment per attempt, `events.<attempt>.jsonl`. Its first line is a header:

    {"format": "tony-events", "version": 1, "job": "...", "attempt": 1, "settings": "<digest>"}

Every other line is one event:

    {"seq": 7, "at": 0.412, "wall": 1763712000.1, "event": "granted", "data": {...}}

`seq` is dense across attempts; `at` is seconds since the job was accepted; `wall` is seconds since 1970, a label.

Durability: `flush` hands everything to the kernel, so that the death of the process loses nothing. It does not wait for
the disk: on the embedded scheduler a machine that loses power has lost the job as well.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tony.config.secret_names import redact
from tony.core.events import EVENTS, Event
from tony.dataclass import dataclass, replace
from tony.errors import NewerRecordError, RecordError, StorageError
from tony.history.json_files import open_plain
from tony.model.codec import DecodeError, Json, from_plain, to_plain
from tony.model.job_spec import JobSpec, Role
from tony.model.json_text import loads
from tony.storage.disk_errors import build_storage_error

FORMAT = "tony-events"
VERSION = 1
#: Bytes. What a peer reports comes in a frame of at most 1 MiB; as ASCII it is no more than three times as long.
LONGEST_LINE = 4 << 20
#: Bytes of all segments of another user's log from which a job's life is told. In memory it takes three times as much.
LONGEST_LOG_OF_OTHERS = 32 << 20
#: The same where events are listed, and looked through for that.
LONGEST_LISTED_LOG_OF_OTHERS = 1 << 30
#: Seconds: no job lives that long.
_LATEST = 1e10

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
    """Every line but the first."""

    seq: int
    at: float
    wall: float
    event: str
    data: Json


class LogWriter:
    """Appends events to one segment, whose header it writes at once.

    Args:
        path: a new file; an existing one is an error, for two writers would mix.
        first_seq: number of the first event.

    Raises:
        StorageError: the file cannot be made.
    """

    def __init__(self, path: Path, header: Header, first_seq: int = 1) -> None:
        self._path = path
        self._next = first_seq
        self._size = 0
        self._pending: list[bytes] = [_line(to_plain(header))]
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise build_storage_error(f"make the event log {path}", path.parent, error) from error
        try:
            self.flush()
        except StorageError:
            os.close(self._fd)
            raise

    @property
    def size(self) -> int:
        """Bytes that were handed to the kernel."""
        return self._size

    def append(self, event: Event, at: float, wall: float) -> int:
        """Takes one event; answers its number. It is safe only after `flush`.

        Raises:
            RecordError: no reader would take a line of that length.
        """
        seq = self._next
        line = _line({"seq": seq, "at": at, "wall": wall, "event": event.kind, "data": to_plain(event)})
        if len(line) > LONGEST_LINE:
            raise RecordError(f"an event of {len(line)} bytes ({event.kind}) is too long for {self._path}")
        self._next += 1
        self._pending.append(line)
        return seq

    def flush(self) -> None:
        """Hands everything appended so far to the kernel, in one write.

        Raises:
            StorageError: the disk is full or gone.
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
        """Flushes and closes."""
        try:
            self.flush()
        finally:
            os.close(self._fd)


def read_header(path: Path) -> Header:
    """The header of one segment.

    Raises:
        RecordError: not an event log, or one of a newer version.
        StorageError: it cannot be read.
    """
    with opened(path) as file:
        line = file.readline(LONGEST_LINE)
    return _header(path, line)


def read(segments: Iterable[Path]) -> Iterator[LogEntry]:
    """Every event of a job, oldest first. A torn last line of a segment is left out: it was never acted upon.

    A segment in which nothing stands, not even its header, is of an attempt that died before it could write.

    Raises:
        RecordError: something in the middle is not what it should be; names file and line.
        StorageError: it cannot be read.
    """
    for path, number, line, attempt in _lines(segments):
        yield decode_entry(f"{path}:{number}", line, attempt)


def place_of(segments: Iterable[Path], number: int) -> str:
    """File and line of the n-th event of a log in the order of reading, from 1; the last file if there are fewer.

    Raises:
        RecordError, StorageError: as `read`.
    """
    place = ""
    for found, (path, line, _, _) in enumerate(_lines(segments), start=1):
        place = f"{path}:{line}"
        if found == number:
            break
    return place


def _lines(segments: Iterable[Path]) -> Iterator[tuple[Path, int, bytes, int]]:
    """Every whole line but the headers: its file, its number in it from 1, itself, the attempt that wrote it."""
    for path in segments:
        with opened(path) as file:
            first = file.readline(LONGEST_LINE)
            if not first.endswith(b"\n") and _MAGIC.startswith(first[: len(_MAGIC)]):
                continue
            attempt = _header(path, first).attempt
            number = 1
            while line := file.readline(LONGEST_LINE):
                number += 1
                if not is_whole(f"{path}:{number}", line):
                    break
                yield path, number, line, attempt


def is_whole(where: str, line: bytes) -> bool:
    """Whether a line, read with `LONGEST_LINE`, has its end; one without is the last, torn or not yet written.

    Raises:
        RecordError: it is longer than any line of a log.
    """
    if line.endswith(b"\n"):
        return True
    if len(line) >= LONGEST_LINE:
        raise RecordError(f"{where}: a line is longer than {LONGEST_LINE} bytes")
    return False


def settings_digest(spec: JobSpec) -> str:
    """Says whether two resolved jobs decide alike, whether or not secrets were taken out of one of them.

    What decides nothing is left out: tags; who may look, and who is told; variables, parameters, schedulers' settings,
    which may hold secrets; how long programs go on alone, and how often an application master begins again. So is what
    has its default value: that a later version knows more settings does not make a difference.
    """
    spec = redact(spec)  # of commands
    roles = {name: replace(role, env={}) for name, role in spec.roles.items()}
    usual = JobSpec()
    bare = replace(
        spec,
        tags=(),
        viewers=(),
        modifiers=(),
        env={},
        secret=(),
        container_env={},
        params={},
        scheduler_settings={},
        roles={},
        orphan_grace=usual.orphan_grace,
        am_attempts=usual.am_attempts,
        notify=usual.notify,
    )
    said = {"job": _differences(bare, JobSpec()), "roles": {n: _differences(r, Role()) for n, r in roles.items()}}
    # Roles stand in the order of their ranks, so keys are not sorted here; those of a dataclass have an order.
    return hashlib.sha256(_ENCODER.encode(said).encode()).hexdigest()


def _differences(value: JobSpec | Role, default: JobSpec | Role) -> dict[str, Json]:
    plain, usual = to_plain(value), to_plain(default)
    found = {name: plain[name] for name in sorted(plain) if plain[name] != usual[name]}
    resources = found.get("resources")
    if isinstance(resources, dict) and not resources.get("others"):  # younger than the rest of them
        del resources["others"]
    return found


def segments(folder: Path) -> list[Path]:
    """The event logs in a job's folder, oldest attempt first."""
    found: list[Path] = []
    while (path := folder / f"events.{len(found) + 1}.jsonl").exists():
        found.append(path)
    return found


def check_length_of_others(folder: Path, most: int = LONGEST_LOG_OF_OTHERS) -> None:
    """Refuse the event log of another user's job that would take too much time and memory, without reading it.

    Args:
        most: bytes of all segments.

    Raises:
        RecordError: it would.
    """
    size = 0
    for path in segments(folder):
        with contextlib.suppress(OSError):
            size += path.lstat().st_size
    if size > most:
        raise RecordError(
            f"the event log in {folder} has {size >> 20:,} MiB; of another user's up to {most >> 20:,} MiB are read "
            f"for this. Events are listed of logs of up to {LONGEST_LISTED_LOG_OF_OTHERS >> 20:,} MiB."
        )


#: How every segment begins.
_MAGIC = _ENCODER.encode({"format": FORMAT})[:-1].encode()


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A segment to read from.

    Raises:
        StorageError: it cannot be read.
    """
    try:
        file = open_plain(path)
    except OSError as error:
        raise StorageError(f"cannot read the event log {path}: {error.strerror}") from error
    with file:
        try:
            yield file
        except OSError as error:
            raise StorageError(f"cannot read the event log {path}: {error.strerror}") from error


def _line(plain: Json) -> bytes:
    return _ENCODER.encode(plain).encode() + b"\n"


def _header(path: Path, line: bytes) -> Header:
    try:
        header = from_plain(Header, loads(line, halves=True), ignore_unknown=True)
    except ValueError as error:
        raise RecordError(f"{path} is no event log: {error}") from None
    if header.format != FORMAT:
        raise RecordError(f"{path} is no event log: its format is {header.format!r:.80}")
    if header.version > VERSION:
        raise NewerRecordError(
            f"{path} has version {header.version}; this tony reads up to {VERSION}. Use a newer one to look at the job."
        )
    return header


def decode_entry(where: str, line: bytes, attempt: int) -> LogEntry:
    """One event from its line; `where` is for the message.

    Raises:
        RecordError: the line is no event.
    """
    try:
        plain = from_plain(_Line, loads(line, halves=True), ignore_unknown=True)
        if not 0 <= plain.at < _LATEST:
            raise DecodeError(f"at {plain.at:.3g} s")
        kind = EVENTS.get(plain.event)
        if kind is None:
            raise DecodeError(f"unknown event {plain.event[:80]!a}")
        event = from_plain(kind, plain.data, ignore_unknown=True)
    except ValueError as error:
        raise RecordError(f"{where}: not an event: {error!s:.200}") from None
    return LogEntry(seq=plain.seq, at=plain.at, wall=plain.wall, attempt=attempt, event=event)
