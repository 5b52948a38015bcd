"""A job's files in S3, below one prefix; the content is listed in `record_publisher`.

A file is one object. An event log is a row of objects `<name>.<number>` that never change (`piece_log`): their contents
in a row are the log. The first piece is empty and claims the log; a later empty one closes it.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

from tony.errors import InfraError, StorageError
from tony.schedulers.job_store.job_store import JobStore, LogAppender, StoredFile, build_closed_name, find_local_name
from tony.schedulers.job_store.piece_log import EventLogPiece, PieceLog, claim_log, close_log, read_log
from tony.storage.s3.bucket import S3Bucket
from tony.storage.s3.object_list import ListedObject

#: Names of a job's files, and the number of a piece of an event log.
_FILE_NAME = re.compile(r"(?P<file>[a-z]+(?:\.\d{1,9}){0,2}\.[a-z]+)(?:\.(?P<number>\d{6,9}))?")
_WRITER = "writer"
#: Bytes of a piece that another writer may have made.
_MAX_PIECE_BYTES = 64 << 20
_CHUNK_BYTES = 1 << 20
#: Pieces that are read at the same time: a server answers after tens of milliseconds, and a log may have thousands.
_READERS = 16
#: An object that a submission creates twice.
_PROBE = ".if-none-match"


class S3JobStore(JobStore):
    """The files of one job.

    Args:
        open_bucket: called before the first request.
        bucket: its name, for messages.
        prefix: of the keys, without a slash at its end.
    """

    def __init__(self, open_bucket: Callable[[], S3Bucket], bucket: str, prefix: str) -> None:
        self.path = f"s3://{bucket}/{prefix}"
        self._open_bucket, self._prefix = open_bucket, prefix
        self._writer = os.urandom(8).hex()
        self._tried = 0  # the number of a claim that may have succeeded

    @cached_property
    def _bucket(self) -> S3Bucket:
        return self._open_bucket()

    def make(self) -> None:
        pass

    def check(self) -> None:
        """Check that files can be created and deleted, and that the server knows conditional requests.

        Two AM attempts could write the same piece of an event log in one that ignores `If-None-Match`.

        Raises:
            StorageError, S3UnavailableError: they cannot, or the server does not.
        """
        key = self._build_key(_PROBE)
        self._bucket.create_object(key, b"", {})
        is_ignored = self._bucket.create_object(key, b"", {})
        self._bucket.delete_object(key)
        if is_ignored:
            text = f"{self._bucket.host} ignores If-None-Match, so an application master that was replaced could still "
            text += "write the event log. Amazon S3, MinIO and Ceph know it: update the server, or keep the history "
            raise StorageError(f'{text}in the namespace (history = "configmaps") or in HDFS')

    def list(self) -> Mapping[str, StoredFile]:
        found: dict[str, StoredFile] = {}
        logs: dict[str, int] = {}
        closed = set()
        for each in self._bucket.list_objects(self._build_key("")):
            match = _FILE_NAME.fullmatch(each.key.removeprefix(self._build_key("")))
            if match is None:
                continue
            if match["number"] is None:
                found[match["file"]] = _build_stored_file(match["file"], each)
            elif find_local_name(match["file"]):
                logs[match["file"]] = logs.get(match["file"], 0) + each.size
                if int(match["number"]) and not each.size:
                    closed.add(match["file"])
        for name, size in logs.items():
            stored_name = build_closed_name(name) if name in closed else name
            found[stored_name] = StoredFile(name=stored_name, size=size, modified_ms=0)
        return found

    def find(self, name: str) -> StoredFile | None:
        if find_local_name(name):
            return self.list().get(name)
        key = self._build_key(name)
        first = next(self._bucket.list_objects(key, 1), None)  # HEAD would not tell a missing bucket from a file
        return _build_stored_file(name, first) if first and first.key == key else None

    def read(self, name: str, offset: int, most: int) -> bytes | None:
        if local_name := find_local_name(name):
            place = f"{self.path}/{local_name}"
            return read_log(self._open_pieces(local_name), place, offset, most, readers=_READERS)
        part = self._bucket.fetch_part(self._build_key(name), offset, most)
        return None if part is None else part.data

    def put(self, name: str, data: bytes | Path, draft: str = "new") -> None:
        if isinstance(data, Path):
            with data.open("rb") as source:
                digest = hashlib.file_digest(source, "sha256").hexdigest()
            size, path = data.stat().st_size, data
            self._bucket.store_object(self._build_key(name), digest, size, lambda: _read_file(path))
        else:
            content, digest = data, hashlib.sha256(data).hexdigest()
            self._bucket.store_object(self._build_key(name), digest, len(content), lambda: [content])

    def delete(self, name: str) -> None:
        self._bucket.delete_object(self._build_key(name))

    def remove_drafts(self) -> None:
        pass  # an object appears when it is complete

    def open_log(self, name: str, interval: float, most_waiting: int, on_durable: Callable[[int], None]) -> LogAppender:
        pieces = self._open_pieces(name)
        if not claim_log(pieces, self._writer):
            raise StorageError(f"{self.path}: another process writes {name}")
        return PieceLog(pieces, self._writer, interval, most_waiting, on_durable)

    def take_over_log(self, name: str) -> StoredFile | None:
        pieces = self._open_pieces(name)
        claim_log(pieces, self._writer)  # of a log that does not exist; its first piece cannot close it
        close_log(pieces, self._writer)
        return self.find(build_closed_name(name))

    def is_taken_over(self, name: str) -> bool:
        return build_closed_name(name) in self.list()

    def claim_attempt(self, build_log_name: Callable[[int], str]) -> int:
        while True:
            names = {find_local_name(name) for name in self.list()}
            number = self._tried or 1
            while number != self._tried and build_log_name(number) in names:
                number += 1
            self._tried = number
            if claim_log(self._open_pieces(build_log_name(number)), self._writer):
                return number
            self._tried = 0

    def is_permanent(self, error: InfraError) -> bool:
        return isinstance(error, StorageError)

    def close(self) -> None:
        pass  # each request has a connection of its own

    def _build_key(self, name: str) -> str:
        return f"{self._prefix}/{name}"

    def _open_pieces(self, name: str) -> _LogPieces:
        return _LogPieces(self._bucket, self._build_key(name))


class _LogPieces:
    """The pieces of one event log.

    Args:
        key: of the log; those of its pieces begin with it.
    """

    def __init__(self, bucket: S3Bucket, key: str) -> None:
        self._bucket, self._key = bucket, key

    def create(self, number: int, piece: EventLogPiece) -> bool:
        return self._bucket.create_object(self._build_key(number), piece.data, {_WRITER: piece.writer})

    def read(self, number: int) -> EventLogPiece | None:
        found = self._bucket.fetch_part(self._build_key(number), 0, _MAX_PIECE_BYTES)
        if found is None:
            return None
        return EventLogPiece(found.metadata.get(_WRITER, ""), found.data, is_closing=number > 0 and not found.data)

    def list_sizes(self) -> Mapping[int, int]:
        found = {}
        for each in self._bucket.list_objects(f"{self._key}."):
            number = each.key.removeprefix(f"{self._key}.")
            if re.fullmatch(r"\d{6,9}", number):
                found[int(number)] = each.size
        return found

    def _build_key(self, number: int) -> str:
        return f"{self._key}.{number:06d}"


def _read_file(path: Path) -> Iterator[bytes]:
    with path.open("rb") as source:
        while data := source.read(_CHUNK_BYTES):
            yield data


def _build_stored_file(name: str, found: ListedObject) -> StoredFile:
    return StoredFile(name=name, size=found.size, modified_ms=int(found.modified * 1000))
