"""Small JSON files of a job's record, written so that a reader never sees half of one."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from tony.errors import RecordError, StorageError
from tony.model.codec import Json
from tony.model.json_text import BadJson, loads


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
        raise StorageError(f"cannot write {path}: {error.strerror}") from error


def read_json(path: Path) -> Json | None:
    """The content of a JSON file, or None if there is no such file.

    Raises:
        RecordError: the content is not JSON.
        StorageError: the file system refused.
    """
    try:
        return loads(path.read_bytes(), halves=True)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error
    except BadJson as error:
        raise RecordError(f"{path} is not JSON: {error}") from error
