"""JSON files of a job directory, written atomically.

They are read as untrusted input, since a reader may have more permissions than the writer: links are not followed,
pipes do not block, and sizes are bounded.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from tony.errors import RecordError, StorageError
from tony.linux.disk_errors import build_storage_error
from tony.linux.files import open_file, replace_file
from tony.model.codec import DecodeError, Json, from_plain
from tony.model.strict_json import InvalidJsonError, loads

T = TypeVar("T")
#: Bytes of a JSON file: the report of a job with 100,000 tasks has about 40 million.
MAX_JSON_BYTES = 64 << 20
#: Bytes, and objects plus arrays, of a JSON file written by another user. In memory it takes ten times as much.
MAX_FOREIGN_JSON_BYTES = 8 << 20
_MAX_FOREIGN_CONTAINERS = 250_000
#: Bytes from which on only one file is decoded at a time.
_LARGE_BYTES = 1 << 20
_large_decoding_lock = threading.Lock()


def write_json(path: Path, data: Json, *, durable: bool = False) -> None:
    """Write `data` to `path` atomically.

    Args:
        durable: fsync, so that not even a power failure leaves an empty file.

    Raises:
        StorageError: the file cannot be written.
    """
    # Lone surrogates, from file names that are not valid text, become JSON escapes.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")
    try:
        replace_file(path, text + b"\n", durable=durable)
    except OSError as error:
        raise build_storage_error(f"write {path}", path.parent, error) from error


@contextlib.contextmanager
def limit_decoding(data: bytes) -> Iterator[None]:
    """Serialise the decoding of large texts across threads, to bound memory; small ones do not wait.

    Enter it after the file was read, so that a hanging file system does not block other threads. Temporary objects
    made from the text should be released inside.
    """
    with _large_decoding_lock if len(data) > _LARGE_BYTES else contextlib.nullcontext():
        yield


def check_foreign_json(data: bytes, name: str) -> None:
    """Refuse JSON of another user that would take too much memory, without decoding it.

    Raises:
        RecordError: it would.
    """
    if len(data) > MAX_FOREIGN_JSON_BYTES:
        raise RecordError(f"{name} is too long: files of other users are read up to {MAX_FOREIGN_JSON_BYTES >> 20} MiB")
    if data.count(b"{") + data.count(b"[") > _MAX_FOREIGN_CONTAINERS:
        raise RecordError(f"{name} has more than {_MAX_FOREIGN_CONTAINERS:,} objects and arrays")


def read_json(path: Path) -> Json | None:
    """Return the content of a JSON file, or None if there is no such file.

    Raises:
        RecordError: the content is not JSON, or is `null`, or is longer than `MAX_JSON_BYTES`.
        StorageError: it cannot be read, or is not a regular file.
    """
    return decode_json(path, read_text(path))


def read_if_valid(path: Path, cls: type[T]) -> T | None:
    """Return the content of a JSON file as `cls`; None if there is no such file, or it is invalid."""
    try:
        data = read_json(path)
        return None if data is None else from_plain(cls, data, ignore_unknown=True)
    except (RecordError, StorageError, DecodeError):
        return None


def read_json_with(open_path: Callable[[str], int], path: str) -> Json | None:
    """Like `read_json`, for a file in a job directory that is held open.

    Args:
        open_path: opens a file there, and returns its descriptor.
    """
    return decode_json(path, _read_text(path, lambda: open_path(path), MAX_JSON_BYTES))


def read_text(path: Path, *, own: bool = True) -> bytes | None:
    """Return the bytes of a JSON file, or None if there is no such file.

    Args:
        own: the job is in the user's own history; lower limits apply to jobs of other users.

    Raises:
        RecordError: it is too long.
        StorageError: it cannot be read, or is not a regular file.
    """
    data = _read_text(path, lambda: open_file(path), MAX_JSON_BYTES if own else MAX_FOREIGN_JSON_BYTES)
    if data is not None and not own:
        check_foreign_json(data, str(path))
    return data


def _read_text(path: str | Path, opened: Callable[[], int], most: int) -> bytes | None:
    try:
        with os.fdopen(opened(), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > most:
                raise RecordError(f"{path} is longer than {most >> 20} MiB")
            return file.read(size + 1)  # read() allocates the requested size
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error


def decode_json(path: str | Path, text: bytes | None) -> Json | None:
    """Decode what `read_text` returned.

    Raises:
        RecordError: it is not JSON, or is `null`.
    """
    if text is None:
        return None
    try:
        data = loads(text, halves=True)
    except InvalidJsonError as error:
        raise RecordError(f"{path} is not JSON: {error}") from error
    if data is None:
        raise RecordError(f"{path} contains only null")
    return data
