"""A job's files in ConfigMaps of a Kubernetes namespace, owned by the job; its content is listed in `record_publisher`.

A file is one object named `<job>.<file>`, or several if it is large: then further pieces, of a version of their own,
are created before the first one is replaced, which names that version. The credentials of clients are a Secret. An
event log is a row of objects `<job>.<file>.<number>` that never change (`piece_log`).
"""

from __future__ import annotations

import base64
import os
import re
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

from tony.errors import InfraError, StorageError
from tony.kube.api_client import ApiClient, Object
from tony.kube.errors import AnswerLostError, KubeApiError
from tony.kube.resources import CONFIG_MAPS, SECRETS, ApiResource
from tony.schedulers.job_store.job_store import JobStore, LogAppender, StoredFile, build_closed_name, find_local_name
from tony.schedulers.job_store.piece_log import EventLogPiece, PieceLog, claim_log, close_log

#: Packed bytes of one object. An object has at most 1 MiB, and base64 makes a third more of it on the wire only.
_MAX_OBJECT_BYTES = 700 << 10
#: Packed bytes of a file; of a larger one nothing is stored.
MAX_FILE_BYTES = 8 << 20
#: Bytes of an unpacked object that another writer may have made.
_MAX_UNPACKED_BYTES = 64 << 20
_PREFIX = "tony.dev/"
JOB_LABEL = f"{_PREFIX}job"
_PART_LABEL = f"{_PREFIX}part"
_FILE, _SIZE, _MODIFIED = f"{_PREFIX}file", f"{_PREFIX}size", f"{_PREFIX}modified"
_VERSION, _COUNT = f"{_PREFIX}version", f"{_PREFIX}pieces"
_NUMBER, _WRITER, _CLOSING = f"{_PREFIX}number", f"{_PREFIX}writer", f"{_PREFIX}closing"
#: Names of a job's files: others, such as paths, are not ours.
_FILE_NAME = re.compile(r"[a-z]+(?:\.\d{1,9}){0,2}(?:\.closed)?\.[a-z]+")
#: Files with credentials.
_SECRET_FILES = frozenset({"access.json"})


class ConfigMapJobStore(JobStore):
    """The files of one job.

    Args:
        job: the job's id, by which its objects are named.
        owner: uid of the Job object that owns them; empty for a reader.
    """

    def __init__(self, client: ApiClient, job: str, owner: str = "") -> None:
        self.path = f"namespace {client.namespace}, ConfigMaps {job}.*"
        self._client, self._job, self._owner = client, job, owner
        self._writer = os.urandom(8).hex()

    def make(self) -> None:
        pass

    def list(self) -> Mapping[str, StoredFile]:
        found: dict[str, StoredFile] = {}
        logs: dict[str, list[Mapping[str, str]]] = {}
        for notes in self._list_notes(CONFIG_MAPS) + self._list_notes(SECRETS):
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
        found = self._get(_find_resource(name), self._name(name))
        return None if found is None else _build_stored_file(name, _get_notes(found))

    def read(self, name: str, offset: int, most: int) -> bytes | None:
        if local_name := find_local_name(name):
            return self._read_log(local_name, offset, most)
        data = self._read_file(name)
        return None if data is None else data[offset : offset + most]

    def put(self, name: str, data: bytes | Path, draft: str = "new") -> None:
        content = data.read_bytes() if isinstance(data, Path) else data
        packed = zlib.compress(content, 6)
        if len(packed) > MAX_FILE_BYTES:
            raise StorageError(f"{name} has {len(packed)} packed bytes; {self.path} takes at most {MAX_FILE_BYTES}")
        parts = [packed[at : at + _MAX_OBJECT_BYTES] for at in range(0, len(packed), _MAX_OBJECT_BYTES)]
        version = os.urandom(4).hex()
        for number, part in enumerate(parts[1:], 1):
            self._create(CONFIG_MAPS, f"{self._name(name)}.{version}-{number}", {_VERSION: version}, part)
        notes = {
            _FILE: name,
            _SIZE: str(len(content)),
            _MODIFIED: str(time.time_ns() // 1_000_000),
            _VERSION: version,
            _COUNT: str(len(parts)),
        }
        self._replace(_find_resource(name), self._name(name), notes, parts[0])

    def delete(self, name: str) -> None:
        resource = _find_resource(name)
        found = self._get(resource, self._name(name))
        if found is not None:
            self._client.delete(resource, self._name(name))
            self._delete_pieces(name, _get_notes(found))

    def remove_drafts(self) -> None:
        pass  # pieces of a file that was never completed go with the job's objects

    def open_log(self, name: str, interval: float, most_waiting: int, on_durable: Callable[[int], None]) -> LogAppender:
        pieces = _LogPieces(self, name)
        if not claim_log(pieces, self._writer):
            raise StorageError(f"{self.path}: another process writes {name}")
        return PieceLog(pieces, self._writer, interval, most_waiting, on_durable)

    def take_over_log(self, name: str) -> StoredFile | None:
        close_log(_LogPieces(self, name), self._writer)
        return self.find(build_closed_name(name))

    def is_taken_over(self, name: str) -> bool:
        return build_closed_name(name) in self.list()

    def is_lasting(self, error: InfraError) -> bool:
        return isinstance(error, StorageError) or (isinstance(error, KubeApiError) and not error.is_passing)

    def close(self) -> None:
        self._client.close()

    def claim_attempt(self, build_log_name: Callable[[int], str]) -> int:
        """Return the number of a new AM attempt: one more than the last one that has a log, and claim its log."""
        while True:
            names = {find_local_name(name) for name in self.list()}
            number = 1
            while build_log_name(number) in names:
                number += 1
            if claim_log(_LogPieces(self, build_log_name(number)), self._writer):
                return number

    # --- objects ------------------------------------------------------------------------------------------------------

    def _name(self, file: str) -> str:
        return f"{self._job}.{file}"

    def _list_notes(self, resource: ApiResource) -> tuple[Mapping[str, str], ...]:
        labels = {JOB_LABEL: self._job, _PART_LABEL: "record"}
        return tuple(map(_get_notes, self._client.list(resource, labels=labels, metadata_only=True).items))

    def _get(self, resource: ApiResource, name: str) -> Object | None:
        try:
            return self._client.get(resource, name)
        except KubeApiError as error:
            if error.is_missing:
                return None
            raise

    def _build(self, resource: ApiResource, name: str, notes: Mapping[str, str], data: bytes) -> Object:
        metadata: Object = {
            "name": name,
            "labels": {"app.kubernetes.io/managed-by": "tony", JOB_LABEL: self._job, _PART_LABEL: "record"},
            "annotations": dict(notes),
        }
        if self._owner:
            metadata["ownerReferences"] = [
                {"apiVersion": "batch/v1", "kind": "Job", "name": self._job, "uid": self._owner}
            ]
        field = "data" if resource is SECRETS else "binaryData"
        return {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": metadata,
            field: {"content": base64.b64encode(data).decode()},
        }

    def _create(self, resource: ApiResource, name: str, notes: Mapping[str, str], data: bytes) -> bool:
        """Create an object that never changes; return False if it exists."""
        body = self._build(resource, name, notes, data) | {"immutable": True}
        try:
            self._client.create(resource, body)
        except KubeApiError as error:
            if not error.is_existing:
                raise
            return False
        return True

    def _replace(self, resource: ApiResource, name: str, notes: Mapping[str, str], data: bytes) -> None:
        """Create or replace the first object of a file; the other objects of what it replaces are deleted."""
        body = self._build(resource, name, notes, data)
        before = self._get(resource, name)
        if before is None:
            try:
                self._client.create(resource, body)
            except AnswerLostError:
                pass  # the patch below is right whether it was created or not
            except KubeApiError as error:
                if not error.is_existing:
                    raise
            else:
                return
        self._client.patch(resource, name, body)
        if before is not None:
            self._delete_pieces(str(notes[_FILE]), _get_notes(before))

    def _delete_pieces(self, file: str, notes: Mapping[str, str]) -> None:
        for number in range(1, _parse_int(notes.get(_COUNT, ""))):
            self._client.delete(CONFIG_MAPS, f"{self._name(file)}.{notes.get(_VERSION, '')}-{number}")

    def _read_file(self, name: str) -> bytes | None:
        resource = _find_resource(name)
        for _ in range(3):  # it may be replaced while its pieces are read
            first = self._get(resource, self._name(name))
            if first is None:
                return None
            notes = _get_notes(first)
            parts = [_get_content(first)]
            for number in range(1, min(_parse_int(notes.get(_COUNT, "")), MAX_FILE_BYTES // _MAX_OBJECT_BYTES + 2)):
                piece = self._get(CONFIG_MAPS, f"{self._name(name)}.{notes.get(_VERSION, '')}-{number}")
                if piece is None:
                    break
                parts.append(_get_content(piece))
            else:
                return _unpack(b"".join(parts))
        raise StorageError(f"{self.path}: pieces of {name} are missing")

    def _read_log(self, name: str, offset: int, most: int) -> bytes | None:
        pieces = _LogPieces(self, name)
        sizes = pieces.list_sizes()
        if not sizes:
            return None
        data = b""
        at = 0
        for number in sorted(sizes):
            size = sizes[number]
            if size and at + size > offset and at < offset + most:
                piece = pieces.read(number)
                data += piece.data[max(0, offset - at) :] if piece else b""
            at += size
        return data[:most]


class _LogPieces:
    """The pieces of one event log."""

    def __init__(self, store: ConfigMapJobStore, name: str) -> None:
        self._store, self._name = store, name

    def create(self, number: int, piece: EventLogPiece) -> bool:
        notes = {_FILE: self._name, _NUMBER: str(number), _SIZE: str(len(piece.data)), _WRITER: piece.writer}
        if piece.is_closing:
            notes[_CLOSING] = "true"
        return self._store._create(CONFIG_MAPS, self._build_name(number), notes, zlib.compress(piece.data, 6))

    def read(self, number: int) -> EventLogPiece | None:
        found = self._store._get(CONFIG_MAPS, self._build_name(number))
        if found is None:
            return None
        notes = _get_notes(found)
        data = _unpack(_get_content(found))
        if len(data) != _parse_int(notes.get(_SIZE, "")):
            raise StorageError(f"{self._build_name(number)} has another size than it says")
        return EventLogPiece(notes.get(_WRITER, ""), data, _CLOSING in notes)

    def list_sizes(self) -> Mapping[int, int]:
        return {
            _parse_int(notes[_NUMBER]): _parse_int(notes.get(_SIZE, ""))
            for notes in self._store._list_notes(CONFIG_MAPS)
            if notes.get(_FILE) == self._name and _NUMBER in notes
        }

    def _build_name(self, number: int) -> str:
        return f"{self._store._name(self._name)}.{number:06d}"


def _find_resource(file: str) -> ApiResource:
    return SECRETS if file in _SECRET_FILES else CONFIG_MAPS


def _get_notes(found: Object) -> Mapping[str, str]:
    return found["metadata"].get("annotations") or {}


def _get_content(found: Object) -> bytes:
    try:
        return base64.b64decode((found.get("binaryData") or found.get("data") or {})["content"], validate=True)
    except (LookupError, ValueError, TypeError):
        raise StorageError(f"{found['metadata'].get('name')} has no content") from None


def _unpack(packed: bytes) -> bytes:
    unpacking = zlib.decompressobj()
    try:
        data = unpacking.decompress(packed, _MAX_UNPACKED_BYTES)
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
