"""Files of a job's record: small ones in JSON are written so that a reader never sees half of one.

They are read as what anybody may have left there: whoever reads may be allowed more than who wrote. So no link is
followed, nothing is waited for, and what is read has an end.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from tony.errors import RecordError, StorageError
from tony.linux.plain_files import open_file
from tony.model.codec import Json
from tony.model.json_text import BadJson, loads
from tony.storage.disk_errors import build_storage_error
from tony.storage.local_store import LocalStore

#: Bytes of a JSON file: the report of a hundred thousand tasks has some forty millions.
LONGEST = 64 << 20
#: Bytes of one, and tables and lists in it, that another user has written. In memory they take ten times as much.
LONGEST_OF_OTHERS = 8 << 20
_MOST_CONTAINERS_OF_OTHERS = 250_000
#: Bytes of a text from which on only one is decoded at a time.
_LARGE = 1 << 20
_DECODING_LARGE = threading.Lock()


def open_plain(path: Path) -> BinaryIO:
    """A plain file to read from.

    Raises:
        OSError: there is none: a link, or a pipe that nobody may ever write to, is none either.
    """
    return os.fdopen(open_file(path), "rb")


def write_json(path: Path, data: Json, mode: int = 0o600, *, durable: bool = False) -> None:
    """Puts `data` where `path` says, in one step: readers see the old file, or the whole new one.

    Args:
        durable: wait for the disk, so that not even a loss of power leaves an empty file.

    Raises:
        StorageError: the file system refused.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        # Half characters, in names of files that are no text, become the escapes that JSON has for them.
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            json.dump(data, file, ensure_ascii=False, separators=(",", ":"))
            file.write("\n")
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise build_storage_error(f"write {path}", path.parent, error) from error


@contextlib.contextmanager
def decoding(data: bytes) -> Iterator[None]:
    """Wait until no other thread decodes a large text; small ones do not wait.

    Enter it with the text read: a file system that hangs holds up nothing. Whatever is made of the text at once, other
    than what is kept, is made in it.
    """
    with _DECODING_LARGE if len(data) > _LARGE else contextlib.nullcontext():
        yield


def check_json_of_others(data: bytes, name: str) -> None:
    """Refuse JSON of another user that would take too much memory, without decoding it.

    Raises:
        RecordError: it would.
    """
    if len(data) > LONGEST_OF_OTHERS:
        raise RecordError(f"{name} is longer than the {LONGEST_OF_OTHERS >> 20} MiB that are read of another user's")
    if data.count(b"{") + data.count(b"[") > _MOST_CONTAINERS_OF_OTHERS:
        raise RecordError(f"{name} has more than {_MOST_CONTAINERS_OF_OTHERS:,} tables and lists in it")


def read_json(path: Path) -> Json | None:
    """The content of a JSON file, or None if there is no such file.

    Raises:
        RecordError: the content is not JSON, or `null`, which is none of ours, or longer than `LONGEST`.
        StorageError: the file system refused, or it is no plain file.
    """
    return decode_json(path, read_text(path))


def read_json_in(store: LocalStore, path: str) -> Json | None:
    """As `read_json`, of a file in a job directory that is held open."""
    return decode_json(path, _read_text(path, lambda: store.open(path), LONGEST))


def read_text(path: Path, *, own: bool = True) -> bytes | None:
    """The bytes of a JSON file, or None if there is no such file.

    Args:
        own: it is of our own history; of another user's less is read.

    Raises:
        RecordError: it is too long.
        StorageError: the file system refused, or it is no plain file.
    """
    data = _read_text(path, lambda: open_file(path), LONGEST if own else LONGEST_OF_OTHERS)
    if data is not None and not own:
        check_json_of_others(data, str(path))
    return data


def _read_text(path: str | Path, opened: Callable[[], int], most: int) -> bytes | None:
    try:
        with os.fdopen(opened(), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > most:
                raise RecordError(f"{path} is longer than the {most >> 20} MiB that are read of it")
            return file.read(size + 1)  # room is taken for as much as is asked for
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error


def decode_json(path: str | Path, text: bytes | None) -> Json | None:
    """What `read_text` has read, as `read_json`.

    Raises:
        RecordError: it is not JSON, or `null`.
    """
    if text is None:
        return None
    try:
        data = loads(text, halves=True)
    except BadJson as error:
        raise RecordError(f"{path} is not JSON: {error}") from error
    if data is None:
        raise RecordError(f"{path} holds nothing but null")
    return data
