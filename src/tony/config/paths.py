"""Paths in settings: relative to what, and whether they are there.

Relative paths of a file are relative to its folder, those of the command line to the current folder.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from tony.config import remote_paths
from tony.dataclass import dataclass

#: How the names of archives end. Only for telling `env.tar.gz` from `python3.12`: staging looks at the content.
ARCHIVE_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".zip")

#: What is said of a path that leads nowhere: kind -> sentence.
_NOT_THERE = {
    "missing": "there is no {}.",
    "loop": "{} is a loop of links, or behind one: they lead to each other and to nothing else. Mend the links.",
    "long": "this path is too long for the file system. Is it a path?",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PathEntry:
    """One item of `files`, taken apart.

    Attributes:
        path: of this machine, or an address.
        name: the new one; None if there is none.
        archive: it is to be unpacked.
        optional: it may be missing.
    """

    path: str
    name: str | None
    archive: bool
    optional: bool


def home_folder(environ: Mapping[str, str]) -> str | None:
    """Where `~` is: HOME, else what the password file says of this user; None if neither knows."""
    if environ.get("HOME"):
        return environ["HOME"]
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return None


def expanded(text: str, environ: Mapping[str, str]) -> str:
    """A path with its `~` or `~user` expanded, as a shell does.

    Raises:
        ValueError: it begins with `~`, and nobody knows where that is.
    """
    if text != "~" and not text.startswith("~/"):
        return os.path.expanduser(text)
    home = home_folder(environ)
    if home is None:
        raise ValueError(
            f"nobody knows where `~` is: HOME is not set and user {os.geteuid()} is not in the password file. "
            "Write the whole path."
        )
    return home + text[1:]


def absolute(text: str, base: Path) -> str:
    """An absolute path: `~` expanded, anything relative put behind `base`.

    Raises:
        ValueError: it is empty, no path of this machine, or below a home that nobody knows.
    """
    if not text.strip():
        raise ValueError("an empty path.")
    if remote_paths.is_address(text):
        raise ValueError("only paths of this machine can be given.")
    return str(base / expanded(text, os.environ))


def absolute_or_address(text: str, base: Path) -> str:
    """The same for what may lie in a cluster's file system, too.

    Raises:
        ValueError: it is neither.
    """
    return remote_paths.checked(text) if remote_paths.is_address(text) else absolute(text, base)


def interpreter(text: str, base: Path) -> str:
    """An interpreter or archive: a bare word that is no file beside the job file is a program found on the nodes."""
    if remote_paths.is_address(text):
        if not is_archive(text):
            raise ValueError("of what lies in HDFS only an archive can be a Python: .tar.gz, .zip...")
        return remote_paths.checked(text)
    if "/" in text or text.startswith("~") or is_archive(text) or (text.strip() and (base / text).exists()):
        return absolute(text, base)
    if not text.strip():
        raise ValueError("an empty path.")
    return text


def is_archive(text: str) -> bool:
    """Whether the name is that of an archive."""
    return text.lower().endswith(ARCHIVE_SUFFIXES)


def file_entry(text: str, base: Path) -> str:
    """One item of `files` with its path made absolute: `path`, `path::name`, `path#archive`, `path#optional`.

    Raises:
        ValueError: says how such an item is written.
    """
    entry = split_entry(text)
    if entry.name is not None and not _stays_inside(entry.name):
        raise ValueError(f"the new name {entry.name!r} must be a relative path inside the working directory.")
    path = absolute_or_address(entry.path, base)
    marks = ("" if entry.name is None else f"::{entry.name}") + ("#archive" if entry.archive else "")
    return path + marks + ("#optional" if entry.optional else "")


def split_entry(text: str) -> PathEntry:
    """Takes `path::name#archive#optional` apart.

    Raises:
        ValueError: more than one `::`.
    """
    left, marks = text, set()
    while (mark := next((m for m in ("#archive", "#optional") if left.endswith(m)), None)) and mark not in marks:
        left = left.removesuffix(mark)
        marks.add(mark)
    path, colons, name = left.partition("::")
    if "::" in name:
        raise ValueError("more than one `::`. Write path::name.")
    return PathEntry(
        path=path, name=name if colons else None, archive="#archive" in marks, optional="#optional" in marks
    )


def _stays_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


# --- what is there ----------------------------------------------------------------------------------------------------


def source_mistake(path: str) -> str | None:
    """What is wrong with a job's source, or None. What lies in HDFS is looked at when the job is submitted."""
    if remote_paths.is_address(path):
        return None
    kind = _kind_of(path)
    if kind in _NOT_THERE:
        return _NOT_THERE[kind].format(_shown(path))
    return None if kind in ("folder", "file") else f"{_shown(path)} is neither a folder nor an archive."


def entry_mistake(entry: str) -> str | None:
    """What is wrong with one item of `files`, or None. What is in it, staging looks at."""
    split = split_entry(entry)
    path, name = split.path, split.name
    if remote_paths.is_address(path):
        return None
    kind = _kind_of(path)
    if kind == "missing" and path != entry and os.path.lexists(entry):
        mark = "::" if name is not None else "#"
        return (
            f"there is no {_shown(path)}; the file that is there has a `{mark}` in its own name, so it cannot be "
            "named. Rename it."
        )
    if kind in _NOT_THERE:
        return None if split.optional and kind == "missing" else _NOT_THERE[kind].format(_shown(path))
    if kind == "other":
        return f"{_shown(path)} is neither a file nor a folder."
    if name is None and os.path.basename(path.rstrip("/")) in ("", ".."):
        return "it has no name of its own. Give it one: path::name."
    return None


def python_mistake(path: str) -> str | None:
    """What is wrong with an interpreter, environment or archive, or None. An interpreter may be on the nodes only."""
    kind = _kind_of(path) if path.startswith("/") else "file"
    if kind == "folder" and not any(os.path.exists(os.path.join(path, "bin", name)) for name in ("python", "python3")):
        return "this is a folder without bin/python: neither an environment nor an interpreter."
    if kind == "missing":
        return f"there is no {_shown(path)}." if is_archive(path) else None
    return _NOT_THERE[kind].format(_shown(path)) if kind in _NOT_THERE else None


def same_names(entries: Sequence[str | None]) -> list[tuple[int, str]]:
    """Items of `files` that would overwrite an earlier one: place in the list, name."""
    seen: set[str] = set()
    twice = []
    for number, entry in enumerate(entries):
        if entry is None:
            continue
        split = split_entry(entry)
        if split.name is None and remote_paths.is_address(split.path):
            continue  # perhaps a folder, whose files are what counts: staging compares those
        name = PurePosixPath(split.name or os.path.basename(split.path.rstrip("/"))).as_posix()
        if name in seen:
            twice.append((number, name))
        seen.add(name)
    return twice


def _shown(path: str) -> str:
    """A path for a message: one that a terminal would act on is escaped."""
    return path if path.isprintable() else ascii(path)[1:-1]


def _kind_of(path: str) -> str:
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except OSError as error:
        # What else it is cannot be told from here: staging says why it cannot be read.
        return {errno.ELOOP: "loop", errno.ENAMETOOLONG: "long"}.get(error.errno or 0, "file")
    except ValueError:
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "file" if stat.S_ISREG(mode) else "other"
