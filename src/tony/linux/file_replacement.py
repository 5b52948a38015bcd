"""Replaces files atomically: a reader sees the old content or the new one, never a part of it."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file under a hidden name next to `path`, and rename it to `path`.

    Raises:
        OSError: it cannot be written; the old file stays.
    """
    draft = path.with_name(f".{path.name}.{os.urandom(4).hex()}.new")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(descriptor, mode)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
