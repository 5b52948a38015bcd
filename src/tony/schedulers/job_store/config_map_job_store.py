"""A job's files in ConfigMaps of a Kubernetes namespace, owned by the job; its content is listed in `record_publisher`.

A file is one object named `<job>.<file>`, or several if it is large: then further pieces, of a version of their own,
are created before the first one is replaced, which names that version. The credentials of clients are a Secret. An
event log is a row of objects `<job>.<file>.<number>` that never change (`piece_log`).
"""

from __future__ import annotations

import os
import re
import time
import zlib
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path

from tony.errors import InfraError, StorageError
from tony.kube.api_client import ApiClient, Object
from tony.kube.denials import Denials
from tony.kube.errors import KubeApiError
from tony.kube.resources import CONFIG_MAPS, SECRETS, ApiResource
from tony.schedulers.job_store.job_objects import PREFIX, JobObjects, get_content, get_notes
from tony.schedulers.job_store.job_store import (
    ACCESS_FILE,
    JobStore,
    LogAppender,
    StoredFile,
    build_closed_name,
    find_local_name,
)
from tony.schedulers.job_store.piece_log import EventLogPiece, PieceLog, claim_log, close_log, read_log

#: Packed bytes of one object. An object has at most 1 MiB, and base64 makes a third more of it on the wire only.
_MAX_OBJECT_BYTES = 700 << 10
#: Packed bytes of a file; of a larger one nothing is stored.
MAX_FILE_BYTES = 8 << 20
#: Bytes of an unpacked object that another writer may have made.
MAX_UNPACKED_BYTES = 64 << 20
_FILE, _SIZE, _MODIFIED = f"{PREFIX}file", f"{PREFIX}size", f"{PREFIX}modified"
_VERSION, _COUNT = f"{PREFIX}version", f"{PREFIX}pieces"
_NUMBER, _WRITER, _CLOSING = f"{PREFIX}number", f"{PREFIX}writer", f"{PREFIX}closing"
#: Names of a job's files: others, such as paths, are not ours.
_FILE_NAME = re.compile(r"[a-z]+(?:\.\d{1,9}){0,2}(?:\.closed)?\.[a-z]+")
#: Files with credentials.
_SECRET_FILES = frozenset({ACCESS_FILE})


class ConfigMapJobStore(JobStore):
    """The files of one job.

    Args:
        job: the job's id, by which its objects are named.
        owner: uid of the Job object that owns them; empty for a reader.
        has_secrets: read and list the credentials of clients as well.
    """

    def __init__(self, client: ApiClient, job: str, owner: str = "", *, has_secrets: bool = True) -> None:
        self.path = f"namespace {client.namespace}, ConfigMaps {job}.*"
        self._client, self._objects = client, JobObjects(client, job, owner)
        self._writer = os.urandom(8).hex()
        self._resources = (CONFIG_MAPS, SECRETS) if has_secrets else (CONFIG_MAPS,)
        self._denials = Denials()
        #: File -> earlier versions whose pieces may still be there.
        self._replaced: dict[str, list[Mapping[str, str]]] = {}

    def make(self) -> None:
        pass

    def list(self) -> Mapping[str, StoredFile]:
        found: dict[str, StoredFile] = {}
        logs: dict[str, list[Mapping[str, str]]] = {}
        for notes in chain.from_iterable(map(self._objects.list_notes, self._resources)):
            name = notes.get(_FILE, "")
            if not _FILE_NAME.fullmatch(name):
                continue
            if _NUMBER in notes:
                logs.setdefault(name, []).append(notes)
            elif _SIZE in notes:
                found[name] = _build_stored_file(name, notes)
        for name, pieces in logs.items():
            is_closed = any(_CLOSING in notes for notes in pieces)
            size = sum(_parse_int(notes.get(_SIZE, "")) for notes in pieces)
            stored_name = build_closed_name(name) if is_closed else name
            found[stored_name] = StoredFile(name=stored_name, size=size, modified_ms=0)
        return found

    def find(self, name: str) -> StoredFile | None:
        if find_local_name(name):
            return self.list().get(name)
        found = self._get(name)
        return None if found is None else _build_stored_file(name, get_notes(found))

    def read(self, name: str, offset: int, most: int) -> bytes | None:
        if local_name := find_local_name(name):
            return read_log(_LogPieces(self._objects, local_name), f"{self.path}, {local_name}", offset, most)
        data = self._read_file(name)
        return None if data is None else data[offset : offset + most]

    def put(self, name: str, data: bytes | Path, draft: str = "new") -> None:
        content = data.read_bytes() if isinstance(data, Path) else data
        packed = zlib.compress(content, 6)
        if len(packed) > MAX_FILE_BYTES:
            raise StorageError(f"{name} has {len(packed)} packed bytes; {self.path} takes at most {MAX_FILE_BYTES}")
        parts = [packed[at : at + _MAX_OBJECT_BYTES] for at in range(0, len(packed), _MAX_OBJECT_BYTES)]
        version = os.urandom(4).hex()
        notes = {
            _FILE: name,
            _SIZE: str(len(content)),
            _MODIFIED: str(time.time_ns() // 1_000_000),
            _VERSION: version,
            _COUNT: str(len(parts)),
        }
        replaced = self._replaced.setdefault(name, [])
        replaced.append(notes)  # if a request fails
        for number, part in enumerate(parts[1:], 1):
            self._objects.create(CONFIG_MAPS, f"{name}.{version}-{number}", {_VERSION: version}, part)
        before = self._objects.replace(_find_resource(name), name, notes, parts[0])
        replaced.remove(notes)
        if before.get(_VERSION) != version:  # else it replaces what a lost answer has created
            replaced.append(before)
        while replaced:
            self._delete_pieces(name, replaced[-1])
            replaced.pop()

    def delete(self, name: str) -> None:
        resource = _find_resource(name)
        found = self._objects.get(resource, name)
        if found is not None:
            self._objects.delete(resource, name)
            self._delete_pieces(name, get_notes(found))

    def remove_drafts(self) -> None:
        pass  # pieces of a file that was never completed go with the job's objects

    def open_log(self, name: str, interval: float, most_waiting: int, on_durable: Callable[[int], None]) -> LogAppender:
        pieces = _LogPieces(self._objects, name)
        if not claim_log(pieces, self._writer):
            raise StorageError(f"{self.path}: another process writes {name}")
        return PieceLog(pieces, self._writer, interval, most_waiting, on_durable)

    def take_over_log(self, name: str) -> StoredFile | None:
        close_log(_LogPieces(self._objects, name), self._writer)
        return self.find(build_closed_name(name))

    def is_taken_over(self, name: str) -> bool:
        return build_closed_name(name) in self.list()

    def is_permanent(self, error: InfraError) -> bool:
        if isinstance(error, KubeApiError):
            if error.is_denied:
                return self._denials.are_permanent()
            is_expired = error.is_unauthorized  # a token is replaced before it expires
            return not (error.is_transient or error.is_quota or is_expired)
        return isinstance(error, StorageError)

    def close(self) -> None:
        self._client.close()

    def claim_attempt(self, build_log_name: Callable[[int], str]) -> int:
        while True:  # a log that this object has claimed is returned again
            notes = self._objects.list_notes(CONFIG_MAPS)
            names = {each.get(_FILE) for each in notes if _NUMBER in each and each.get(_WRITER) != self._writer}
            number = 1
            while build_log_name(number) in names:
                number += 1
            if claim_log(_LogPieces(self._objects, build_log_name(number)), self._writer):
                return number

    def _get(self, name: str) -> Object | None:
        resource = _find_resource(name)
        is_file = _FILE_NAME.fullmatch(name) and resource in self._resources
        return self._objects.get(resource, name) if is_file else None

    def _delete_pieces(self, file: str, notes: Mapping[str, str]) -> None:
        for number in range(1, _parse_int(notes.get(_COUNT, ""))):
            self._objects.delete(CONFIG_MAPS, f"{file}.{notes.get(_VERSION, '')}-{number}")

    def _read_file(self, name: str) -> bytes | None:
        for _ in range(3):  # it may be replaced while its pieces are read
            first = self._get(name)
            if first is None:
                return None
            notes = get_notes(first)
            parts = [get_content(first)]
            for number in range(1, min(_parse_int(notes.get(_COUNT, "")), MAX_FILE_BYTES // _MAX_OBJECT_BYTES + 2)):
                piece = self._objects.get(CONFIG_MAPS, f"{name}.{notes.get(_VERSION, '')}-{number}")
                if piece is None:
                    break
                parts.append(get_content(piece))
            else:
                return _unpack(b"".join(parts))
        raise StorageError(f"{self.path}: pieces of {name} are missing")


class _LogPieces:
    """The pieces of one event log."""

    def __init__(self, objects: JobObjects, name: str) -> None:
        self._objects, self._name = objects, name

    def create(self, number: int, piece: EventLogPiece) -> bool:
        notes = {_FILE: self._name, _NUMBER: str(number), _SIZE: str(len(piece.data)), _WRITER: piece.writer}
        if piece.is_closing:
            notes[_CLOSING] = "true"
        return self._objects.create(CONFIG_MAPS, self._build_name(number), notes, zlib.compress(piece.data, 6))

    def read(self, number: int) -> EventLogPiece | None:
        found = self._objects.get(CONFIG_MAPS, self._build_name(number))
        if found is None:
            return None
        notes = get_notes(found)
        data = _unpack(get_content(found))
        if len(data) != _parse_int(notes.get(_SIZE, "")):
            raise StorageError(f"{self._build_name(number)} has another size than it says")
        return EventLogPiece(notes.get(_WRITER, ""), data, _CLOSING in notes)

    def list_sizes(self) -> Mapping[int, int]:
        return {
            _parse_int(notes[_NUMBER]): _parse_int(notes.get(_SIZE, ""))
            for notes in self._objects.list_notes(CONFIG_MAPS)
            if notes.get(_FILE) == self._name and _NUMBER in notes
        }

    def _build_name(self, number: int) -> str:
        return f"{self._name}.{number:06d}"


def _find_resource(file: str) -> ApiResource:
    return SECRETS if file in _SECRET_FILES else CONFIG_MAPS


def _unpack(packed: bytes) -> bytes:
    unpacking = zlib.decompressobj()
    try:
        data = unpacking.decompress(packed, MAX_UNPACKED_BYTES)
    except zlib.error as error:
        raise StorageError(f"a stored file is damaged: {error}") from None
    if not unpacking.eof:
        raise StorageError("a stored file is damaged, or too large")
    return data


def _build_stored_file(name: str, notes: Mapping[str, str]) -> StoredFile:
    return StoredFile(
        name=name, size=_parse_int(notes.get(_SIZE, "")), modified_ms=_parse_int(notes.get(_MODIFIED, ""))
    )


def _parse_int(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0
