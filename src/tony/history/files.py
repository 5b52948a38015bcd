"""Files of a job's record: small ones in JSON are written so that a reader never sees half of one.

They are read as what anybody may have left there: whoever reads may be allowed more than who wrote. So no link is
followed, nothing is waited for, and what is read has an end.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from pathlib import Path
from typing import BinaryIO

from tony.errors import RecordError, StorageError
from tony.model.codec import Json
from tony.model.json_text import BadJson, loads

#: Bytes of a JSON file: the report of a hundred thousand tasks has some forty millions.
LONGEST = 64 << 20


def open_plain(path: Path) -> BinaryIO:
    """A plain file to read from.

    Raises:
        OSError: there is none: a link, or a pipe that nobody may ever write to, is none either.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a link") from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no plain file")
    return os.fdopen(descriptor, "rb")


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
        RecordError: the content is not JSON, or `null`, which is none of ours, or longer than `LONGEST`.
        StorageError: the file system refused, or it is no plain file.
    """
    try:
        with open_plain(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > LONGEST:
                raise RecordError(f"{path} is longer than {LONGEST >> 20} MiB")
            data = loads(file.read(size + 1), halves=True)  # room is taken for as much as is asked for
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error
    except BadJson as error:
        raise RecordError(f"{path} is not JSON: {error}") from error
    if data is None:
        raise RecordError(f"{path} holds nothing but null")
    return data
