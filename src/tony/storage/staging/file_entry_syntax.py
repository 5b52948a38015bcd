"""The syntax of `files` in a job file: `path`, `path::name`, `path#archive`, `path#optional`, and combinations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tony.config.files.paths import split_entry

#: `hdfs://host/x`, also after path normalization has made it absolute and its slashes single.
_REMOTE = re.compile(r"(?:^|/)([A-Za-z][A-Za-z0-9+.-]+):/{1,3}[^/]")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One entry.

    Attributes:
        path: of the file, folder or archive.
        name: its name in the task's working directory; may contain folders.
        unpack: unpack the archive into a folder `name`.
        optional: it may be missing.
    """

    path: str
    name: str
    unpack: bool = False
    optional: bool = False


def parse(text: str) -> FileEntry:
    """Parse one entry.

    Raises:
        ValueError: the entry is invalid; the message says what to write instead.
    """
    entry = split_entry(text)
    path, given = entry.path, entry.name
    if not path:
        raise ValueError("there is no path. Write `path`, `path::name` or `path#archive`.")
    name = path.rstrip("/").rpartition("/")[2] if given is None else given
    if given is None and name in ("", ".", ".."):
        raise ValueError(f"it has no name of its own. Give it one: `{path}::name`.")
    return FileEntry(path=path, name=_clean(name), unpack=entry.archive, optional=entry.optional)


def remote_scheme(path: str) -> str | None:
    """Return the scheme of an address such as `hdfs://host/x`; None for a path."""
    match = _REMOTE.search(path)
    return match[1] if match else None


def clashes(names: Sequence[str]) -> list[tuple[int, int]]:
    """Return pairs of positions whose names conflict: equal, or one below the other. Later one first."""
    return [
        (later, earlier)
        for later, name in enumerate(names)
        for earlier, other in enumerate(names[:later])
        if _conflict(name, other)
    ]


def _conflict(name: str, other: str) -> bool:
    return name == other or name.startswith(f"{other}/") or other.startswith(f"{name}/")


def _clean(name: str) -> str:
    if name.startswith("/"):
        raise ValueError(
            f'the name "{name}" is absolute. Names are relative to the working directory: remove the leading /.'
        )
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ValueError(f'the name "{name}" leads out of the working directory. Remove the `..`.')
    if not parts or "\0" in name:
        raise ValueError("the name after :: is empty. Write `path::name`.")
    return "/".join(parts)
