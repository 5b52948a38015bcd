"""Paths in settings: relative to what, and whether they are there.

Relative paths of a file are relative to its folder, those of the command line to the current folder.
"""

from __future__ import annotations

import errno
import os
import pwd
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

#: How the names of archives end. Only for telling `env.tar.gz` from `python3.12`: staging looks at the content.
ARCHIVE_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".zip")

#: What is said of a path that leads nowhere: kind -> sentence.
_NOT_THERE = {
    "missing": "there is no {}.",
    "loop": "{} is a loop of links, or behind one: they lead to each other and to nothing else. Mend the links.",
    "long": "this path is too long for the file system. Is it a path?",
}

_REMOTE = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE | re.ASCII)


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
    if _REMOTE.match(text):
        raise ValueError("only paths of this machine can be given.")
    return str(base / expanded(text, os.environ))


def interpreter(text: str, base: Path) -> str:
    """An interpreter or archive: a bare word that is no file beside the job file is a program found on the nodes."""
    if "/" in text or text.startswith("~") or is_archive(text) or (text.strip() and (base / text).exists()):
        return absolute(text, base)
    if not text.strip():
        raise ValueError("an empty path.")
    return text


def is_archive(text: str) -> bool:
    """Whether the name is that of an archive."""
    return text.lower().endswith(ARCHIVE_SUFFIXES)


def file_entry(text: str, base: Path) -> str:
    """One item of `files` with its path made absolute: `path`, `path::name`, `path#archive`.

    Raises:
        ValueError: says how such an item is written.
    """
    path, name, archive = split_entry(text)
    if name is not None and not _stays_inside(name):
        raise ValueError(f"the new name {name!r} must be a relative path inside the working directory.")
    return absolute(path, base) + ("" if name is None else f"::{name}") + ("#archive" if archive else "")


def split_entry(text: str) -> tuple[str, str | None, bool]:
    """Takes `path::name#archive` apart: path, new name or None, whether it is to be unpacked.

    Raises:
        ValueError: more than one `::`.
    """
    archive = text.endswith("#archive")
    path, colons, name = text.removesuffix("#archive").partition("::")
    if "::" in name:
        raise ValueError("more than one `::`. Write path::name.")
    return path, name if colons else None, archive


def _stays_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


# --- what is there ----------------------------------------------------------------------------------------------------


def source_mistake(path: str) -> str | None:
    """What is wrong with a job's source, or None."""
    kind = _kind_of(path)
    if kind in _NOT_THERE:
        return _NOT_THERE[kind].format(path)
    return None if kind in ("folder", "file") else f"{path} is neither a folder nor an archive."


def entry_mistake(entry: str) -> str | None:
    """What is wrong with one item of `files`, or None. What is in it, staging looks at."""
    path, name, _ = split_entry(entry)
    kind = _kind_of(path)
    if kind == "missing" and path != entry and os.path.lexists(entry):
        mark = "::" if name is not None else "#archive"
        return (
            f"there is no {path}; the file that is there has a `{mark}` in its own name, so it cannot be named. "
            "Rename it."
        )
    if kind in _NOT_THERE:
        return _NOT_THERE[kind].format(path)
    if kind == "other":
        return f"{path} is neither a file nor a folder."
    if name is None and os.path.basename(path.rstrip("/")) in ("", ".."):
        return "it has no name of its own. Give it one: path::name."
    return None


def python_mistake(path: str) -> str | None:
    """What is wrong with an interpreter, environment or archive, or None. An interpreter may be on the nodes only."""
    kind = _kind_of(path) if path.startswith("/") else "file"
    if kind == "folder" and not any(os.path.exists(os.path.join(path, "bin", name)) for name in ("python", "python3")):
        return "this is a folder without bin/python: neither an environment nor an interpreter."
    if kind == "missing":
        return f"there is no {path}." if is_archive(path) else None
    return _NOT_THERE[kind].format(path) if kind in _NOT_THERE else None


def same_names(entries: Sequence[str | None]) -> list[tuple[int, str]]:
    """Items of `files` that would overwrite an earlier one: place in the list, name."""
    seen: set[str] = set()
    twice = []
    for number, entry in enumerate(entries):
        if entry is None:
            continue
        path, name, _ = split_entry(entry)
        name = PurePosixPath(name or os.path.basename(path.rstrip("/"))).as_posix()
        if name in seen:
            twice.append((number, name))
        seen.add(name)
    return twice


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
