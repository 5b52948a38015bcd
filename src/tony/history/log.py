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

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tony.core.events import EVENTS, Event
from tony.errors import RecordError, StorageError
from tony.model.codec import DecodeError, from_plain, to_plain
from tony.model.job import JobSpec

FORMAT = "tony-events"
VERSION = 1
#: Bytes. An `Exited` carries at most 20 lines of 2,000 bytes; everything else is far smaller.
LONGEST_LINE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
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


class LogWriter:
    """Appends events to one segment.

    Args:
        path: a new file; an existing one is an error, for two writers would mix.
        first_seq: number of the first event.

    Raises:
        StorageError: the file cannot be made.
    """

    def __init__(self, path: Path, header: Header, first_seq: int = 1) -> None:
        self._path = path
        self._next = first_seq
        self._pending: list[bytes] = [_line(to_plain(header))]
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageError(f"cannot make the event log {path}: {error.strerror}") from error

    def append(self, event: Event, at: float, wall: float) -> int:
        """Takes one event; answers its number. It is safe only after `flush`."""
        seq = self._next
        self._next += 1
        plain = {"seq": seq, "at": at, "wall": wall, "event": event.kind, "data": to_plain(event)}
        self._pending.append(_line(plain))
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
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            raise StorageError(f"cannot write the event log {self._path}: {error.strerror}") from error

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
    """
    with path.open("rb") as file:
        line = file.readline(LONGEST_LINE)
    return _header(path, line)


def read(segments: Iterator[Path] | list[Path]) -> Iterator[Entry]:
    """Every event of a job, oldest first. A torn last line of a segment is left out: it was never acted upon.

    Raises:
        RecordError: something in the middle is not what it should be; names file and line.
    """
    for path in segments:
        with path.open("rb") as file:
            attempt = _header(path, file.readline(LONGEST_LINE)).attempt
            number = 1
            while line := file.readline(LONGEST_LINE):
                number += 1
                if not line.endswith(b"\n"):
                    if len(line) < LONGEST_LINE:
                        break
                    raise RecordError(f"{path}:{number}: a line is longer than {LONGEST_LINE} bytes")
                yield _entry(path, number, line, attempt)


def settings_digest(spec: JobSpec) -> str:
    """Says whether two resolved jobs decide alike. Variables are left out: they decide nothing and may be secret."""
    bare = replace(spec, env={}, roles={name: replace(role, env={}) for name, role in spec.roles.items()})
    return hashlib.sha256(json.dumps(to_plain(bare), sort_keys=True).encode()).hexdigest()


def segments(folder: Path) -> list[Path]:
    """The event logs in a job's folder, oldest attempt first."""
    found: list[Path] = []
    while (path := folder / f"events.{len(found) + 1}.jsonl").exists():
        found.append(path)
    return found


def _line(plain: Any) -> bytes:
    return json.dumps(plain, separators=(",", ":")).encode() + b"\n"


def _header(path: Path, line: bytes) -> Header:
    try:
        header = from_plain(Header, json.loads(line), ignore_unknown=True)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path} is no event log: {error}") from None
    if header.format != FORMAT:
        raise RecordError(f"{path} is no event log: its format is {header.format!r:.80}")
    if header.version > VERSION:
        raise RecordError(f"{path} has version {header.version}; this tony reads up to {VERSION}: use a newer one")
    return header


def _entry(path: Path, number: int, line: bytes, attempt: int) -> Entry:
    try:
        plain = json.loads(line)
        kind = EVENTS[plain["event"]]
        event = from_plain(kind, plain["data"], ignore_unknown=True)
        return Entry(
            seq=int(plain["seq"]), at=float(plain["at"]), wall=float(plain["wall"]), attempt=attempt, event=event
        )
    except (KeyError, TypeError, ValueError, RecursionError, DecodeError) as error:
        raise RecordError(f"{path}:{number}: not an event: {error!r:.200}") from None
