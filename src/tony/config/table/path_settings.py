"""Values of the settings that are paths, and items of `files`: makes them absolute, and checks that they exist.

Relative paths in a file are relative to its folder, those on the command line to the current folder.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from enum import Enum, auto
from pathlib import Path

from tony.linux.user_accounts import expand_home
from tony.model.file_entry import is_archive, parse_file_entry
from tony.model.hdfs_uri import is_address, normalize_hdfs_uri


class _PathKind(Enum):
    FILE = auto()
    FOLDER = auto()
    OTHER = auto()
    MISSING = auto()
    LOOP = auto()
    TOO_LONG = auto()


#: Kind of an unusable path -> message.
_MISSING_MESSAGES = {
    _PathKind.MISSING: "{} does not exist.",
    _PathKind.LOOP: "{} is a loop of symbolic links, or behind one. Fix the links.",
    _PathKind.TOO_LONG: "the path is too long for the file system. Is it a path?",
}


def make_absolute(text: str, base: Path) -> str:
    """Return an absolute path: `~` expanded, relative paths below `base`.

    Raises:
        ValueError: it is empty, an address, or below an unknown home folder.
    """
    if not text.strip():
        raise ValueError("the path is empty.")
    if is_address(text):
        raise ValueError("only local paths are allowed.")
    return str(base / expand_home(text, os.environ))


def make_absolute_or_address(text: str, base: Path) -> str:
    """Return an absolute path, or the address of a file in a cluster's file system.

    Raises:
        ValueError: it is neither.
    """
    return normalize_hdfs_uri(text) if is_address(text) else make_absolute(text, base)


def interpreter(text: str, base: Path) -> str:
    """Return an interpreter or archive; a word that is no file next to the job file is a program on the nodes."""
    if is_address(text):
        if not is_archive(text):
            raise ValueError("in HDFS, python must be an archive: .tar.gz, .zip...")
        return normalize_hdfs_uri(text)
    if "/" in text or text.startswith("~") or is_archive(text) or (text.strip() and (base / text).exists()):
        return make_absolute(text, base)
    if not text.strip():
        raise ValueError("the path is empty.")
    return text


# --- items of `files` -------------------------------------------------------------------------------------------------


def file_entry(text: str, base: Path) -> str:
    """Return an item of `files` with an absolute path: `path`, `path::name`, `path#archive`, `path#optional`.

    Raises:
        ValueError: it is not valid.
    """
    entry = parse_file_entry(text)
    path = make_absolute_or_address(entry.path, base)
    if entry.new_name is None and os.path.basename(path.rstrip("/")) in ("", ".."):
        raise ValueError("it has no name. Add one: path::name.")
    marks = ("" if entry.new_name is None else f"::{entry.new_name}") + ("#archive" if entry.unpack else "")
    return path + marks + ("#optional" if entry.optional else "")


def find_same_names(entries: Sequence[str | None]) -> list[tuple[int, str]]:
    """Return the items of `files` that would overwrite an earlier one: index, name."""
    seen: set[str] = set()
    twice = []
    for number, entry in enumerate(entries):
        if entry is None:
            continue
        parsed = parse_file_entry(entry)
        if parsed.new_name is None and is_address(parsed.path):
            continue  # perhaps a folder: staging compares its files
        if parsed.name in seen:
            twice.append((number, parsed.name))
        seen.add(parsed.name)
    return twice


# --- existence --------------------------------------------------------------------------------------------------------


def source_error(path: str) -> str | None:
    """Return what is wrong with the source of a job, or None. Files in HDFS are checked at submission."""
    if is_address(path):
        return None
    kind = _find_kind(path)
    if kind in _MISSING_MESSAGES:
        return _MISSING_MESSAGES[kind].format(_format_path(path))
    return f"{_format_path(path)} is neither a folder nor an archive." if kind is _PathKind.OTHER else None


def entry_error(text: str) -> str | None:
    """Return what is wrong with one item of `files`, or None. Staging checks the content."""
    entry = parse_file_entry(text)
    path = entry.path
    if is_address(path):
        return None
    kind = _find_kind(path)
    if kind is _PathKind.MISSING and path != text and os.path.lexists(text):
        mark = "::" if entry.new_name is not None else "#"
        shown = _format_path(path)
        return f"{shown} does not exist; a file with `{mark}` in its name does, but cannot be used. Rename it."
    if kind is _PathKind.MISSING and entry.optional:
        return None
    if kind in _MISSING_MESSAGES:
        return _MISSING_MESSAGES[kind].format(_format_path(path))
    if kind is _PathKind.OTHER:
        return f"{_format_path(path)} is neither a file nor a folder."
    return None


def python_error(path: str) -> str | None:
    """Return what is wrong with an interpreter, environment or archive, or None. It may exist on the nodes only."""
    kind = _find_kind(path) if path.startswith("/") else _PathKind.FILE
    programs = [os.path.join(path, "bin", name) for name in ("python", "python3")]
    if kind is _PathKind.FOLDER and not any(map(os.path.exists, programs)):
        return "this folder has no bin/python: it is neither an environment nor an interpreter."
    if kind is _PathKind.MISSING:
        return f"{_format_path(path)} does not exist." if is_archive(path) else None
    return _MISSING_MESSAGES[kind].format(_format_path(path)) if kind in _MISSING_MESSAGES else None


def _format_path(path: str) -> str:
    """Return a path for a message, escaped if it has unprintable characters."""
    return path if path.isprintable() else ascii(path)[1:-1]


def _find_kind(path: str) -> _PathKind:
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return _PathKind.MISSING
    except OSError as error:
        # Unknown kind: staging reports why it cannot be read.
        known = {errno.ELOOP: _PathKind.LOOP, errno.ENAMETOOLONG: _PathKind.TOO_LONG}
        return known.get(error.errno or 0, _PathKind.FILE)
    except ValueError:
        return _PathKind.FILE
    if stat.S_ISDIR(mode):
        return _PathKind.FOLDER
    return _PathKind.FILE if stat.S_ISREG(mode) else _PathKind.OTHER
