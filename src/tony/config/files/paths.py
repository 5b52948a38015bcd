"""Paths in settings: makes them absolute, and checks that they exist.

Relative paths in a file are relative to its folder, those on the command line to the current folder.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tony.linux.home_folder import find_home_folder

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE | re.ASCII)
#: Hadoop's own commands accept this form, too.
_SHORT = re.compile(r"hdfs:/(?!/)", re.IGNORECASE | re.ASCII)

_FORMS = "Addresses are hdfs://namenode/path, or hdfs:///path in the default file system."
_REMEDIES = {
    "file": "write a local path without `file://`.",
    "webhdfs": "write hdfs:// and the name of the NameNode; the HTTP address comes from Hadoop's configuration.",
    "swebhdfs": "write hdfs:// and the name of the NameNode; the HTTPS address comes from Hadoop's configuration.",
    "viewfs": "mount tables are not supported. Write the hdfs:// address that it resolves to.",
}


def is_address(text: str) -> bool:
    """Return True if the text is an address of any kind, not a local path."""
    return bool(_SCHEME.match(text) or _SHORT.match(text))


def normalize_hdfs_uri(text: str) -> str:
    """Return an HDFS address in canonical form: without double or trailing slashes.

    Raises:
        ValueError: it is not an HDFS address; says what to write instead.
    """
    text = _SHORT.sub("hdfs:///", text)
    match = _SCHEME.match(text)
    scheme = match[1].lower() if match else ""
    if not match or scheme != "hdfs":
        other = f"{scheme}:// is not supported. {_FORMS} Copy the file to HDFS, or let the program read it."
        raise ValueError(_REMEDIES.get(scheme, other))
    name, _, path = text[match.end() :].partition("/")
    parts = [part for part in path.split("/") if part]
    if not parts:
        raise ValueError("this is a whole file system. Name a file or a folder in it.")
    if any(part in (".", "..") for part in parts) or "\0" in path:
        raise ValueError("paths in HDFS must not contain `.` or `..`. Write the full path.")
    return f"hdfs://{name}/{'/'.join(parts)}"


def split_address(address: str) -> tuple[str, str]:
    """Split a canonical address into the file system, empty for the default one, and the path."""
    name, slash, path = address.removeprefix("hdfs://").partition("/")
    return (f"hdfs://{name}" if name else ""), slash + path


#: Suffixes of archives; only to distinguish `env.tar.gz` from `python3.12`: staging checks the content.
ARCHIVE_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".zip")

#: Kind of an unusable path -> message.
_MISSING_MESSAGES = {
    "missing": "{} does not exist.",
    "loop": "{} is a loop of symbolic links, or behind one. Fix the links.",
    "long": "the path is too long for the file system. Is it a path?",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PathEntry:
    """One parsed item of `files`.

    Attributes:
        path: local path, or an address.
        name: the new name; None if there is none.
        archive: unpack it.
        optional: it may be missing.
    """

    path: str
    name: str | None
    archive: bool
    optional: bool


def expanded(text: str, environ: Mapping[str, str]) -> str:
    """Expand `~` or `~user` in a path, like a shell.

    Raises:
        ValueError: it begins with `~`, and the user has no home folder.
    """
    if text != "~" and not text.startswith("~/"):
        return os.path.expanduser(text)
    home = find_home_folder(environ)
    if home is None:
        raise ValueError(
            f"`~` is unknown: HOME is not set and user {os.geteuid()} is not in the password database. "
            "Write the full path."
        )
    return home + text[1:]


def absolute(text: str, base: Path) -> str:
    """Return an absolute path: `~` expanded, relative paths below `base`.

    Raises:
        ValueError: it is empty, an address, or below an unknown home folder.
    """
    if not text.strip():
        raise ValueError("the path is empty.")
    if is_address(text):
        raise ValueError("only local paths are allowed.")
    return str(base / expanded(text, os.environ))


def absolute_or_address(text: str, base: Path) -> str:
    """Return an absolute path, or the address of a file in a cluster's file system.

    Raises:
        ValueError: it is neither.
    """
    return normalize_hdfs_uri(text) if is_address(text) else absolute(text, base)


def interpreter(text: str, base: Path) -> str:
    """Return an interpreter or archive; a word that is no file next to the job file is a program on the nodes."""
    if is_address(text):
        if not is_archive(text):
            raise ValueError("in HDFS, python must be an archive: .tar.gz, .zip...")
        return normalize_hdfs_uri(text)
    if "/" in text or text.startswith("~") or is_archive(text) or (text.strip() and (base / text).exists()):
        return absolute(text, base)
    if not text.strip():
        raise ValueError("the path is empty.")
    return text


def is_archive(text: str) -> bool:
    """Return True if the name is that of an archive."""
    return text.lower().endswith(ARCHIVE_SUFFIXES)


def file_entry(text: str, base: Path) -> str:
    """Return an item of `files` with an absolute path: `path`, `path::name`, `path#archive`, `path#optional`.

    Raises:
        ValueError: it is not valid.
    """
    entry = split_entry(text)
    if entry.name is not None and not _stays_inside(entry.name):
        raise ValueError(f"the new name {entry.name!r} must be a relative path inside the working directory.")
    path = absolute_or_address(entry.path, base)
    marks = ("" if entry.name is None else f"::{entry.name}") + ("#archive" if entry.archive else "")
    return path + marks + ("#optional" if entry.optional else "")


def split_entry(text: str) -> PathEntry:
    """Parse `path::name#archive#optional`.

    Raises:
        ValueError: more than one `::`.
    """
    left, marks = text, set()
    while (mark := next((m for m in ("#archive", "#optional") if left.endswith(m)), None)) and mark not in marks:
        left = left.removesuffix(mark)
        marks.add(mark)
    path, colons, name = left.partition("::")
    if "::" in name:
        raise ValueError("it has more than one `::`. Write path::name.")
    return PathEntry(
        path=path, name=name if colons else None, archive="#archive" in marks, optional="#optional" in marks
    )


def _stays_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


# --- existence --------------------------------------------------------------------------------------------------------


def source_error(path: str) -> str | None:
    """Return what is wrong with the source of a job, or None. Files in HDFS are checked at submission."""
    if is_address(path):
        return None
    kind = _kind_of(path)
    if kind in _MISSING_MESSAGES:
        return _MISSING_MESSAGES[kind].format(_shown(path))
    return None if kind in ("folder", "file") else f"{_shown(path)} is neither a folder nor an archive."


def entry_error(entry: str) -> str | None:
    """Return what is wrong with one item of `files`, or None. Staging checks the content."""
    split = split_entry(entry)
    path, name = split.path, split.name
    if is_address(path):
        return None
    kind = _kind_of(path)
    if kind == "missing" and path != entry and os.path.lexists(entry):
        mark = "::" if name is not None else "#"
        return f"{_shown(path)} does not exist; a file with `{mark}` in its name does, but cannot be used. Rename it."
    if kind in _MISSING_MESSAGES:
        return None if split.optional and kind == "missing" else _MISSING_MESSAGES[kind].format(_shown(path))
    if kind == "other":
        return f"{_shown(path)} is neither a file nor a folder."
    if name is None and os.path.basename(path.rstrip("/")) in ("", ".."):
        return "it has no name. Add one: path::name."
    return None


def python_error(path: str) -> str | None:
    """Return what is wrong with an interpreter, environment or archive, or None. It may exist on the nodes only."""
    kind = _kind_of(path) if path.startswith("/") else "file"
    if kind == "folder" and not any(os.path.exists(os.path.join(path, "bin", name)) for name in ("python", "python3")):
        return "this folder has no bin/python: it is neither an environment nor an interpreter."
    if kind == "missing":
        return f"{_shown(path)} does not exist." if is_archive(path) else None
    return _MISSING_MESSAGES[kind].format(_shown(path)) if kind in _MISSING_MESSAGES else None


def same_names(entries: Sequence[str | None]) -> list[tuple[int, str]]:
    """Return the items of `files` that would overwrite an earlier one: index, name."""
    seen: set[str] = set()
    twice = []
    for number, entry in enumerate(entries):
        if entry is None:
            continue
        split = split_entry(entry)
        if split.name is None and is_address(split.path):
            continue  # perhaps a folder: staging compares its files
        name = PurePosixPath(split.name or os.path.basename(split.path.rstrip("/"))).as_posix()
        if name in seen:
            twice.append((number, name))
        seen.add(name)
    return twice


def _shown(path: str) -> str:
    """Return a path for a message, escaped if it has unprintable characters."""
    return path if path.isprintable() else ascii(path)[1:-1]


def _kind_of(path: str) -> str:
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except OSError as error:
        # Unknown kind: staging reports why it cannot be read.
        return {errno.ELOOP: "loop", errno.ENAMETOOLONG: "long"}.get(error.errno or 0, "file")
    except ValueError:
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "file" if stat.S_ISREG(mode) else "other"


def default_site_files(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the site files: the machine's, then the user's own, if the user has a home folder."""
    machine = Path("/etc/tony/tony.toml")
    config = environ.get("XDG_CONFIG_HOME", "")
    if config.startswith("/"):
        return machine, Path(config, "tony", "tony.toml")
    home = find_home_folder(environ)
    return (machine,) if home is None else (machine, Path(home, ".config", "tony", "tony.toml"))


def is_absent(path: Path) -> bool:
    """Return True if the file does not exist."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        pass  # unreadable, which must be reported: its rules must not be skipped
    return False
