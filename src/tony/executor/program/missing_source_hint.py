"""Recognizes in a program's last output that it misses a file that was left out of the job's source."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence

from tony.model.staged_files import LeftOut

_NO_FILE = re.compile(r"no such file or directory|FileNotFoundError|ENOENT", re.IGNORECASE)
#: These may also mean that something else is missing, such as a column or a key.
_NOT_FOUND = re.compile(r"does not exist|not found", re.IGNORECASE)
_QUOTED = re.compile(r"""'([^']+)'|"([^"]+)"|`([^`']+)[`']""")
_SEPARATORS = re.compile(r"""[\s'"`:;,()<>=\[\]]+""")


def explain_missing_file(tail: Sequence[str], left_out: LeftOut | None, work_folder: str) -> str:
    """Return a sentence about the left-out file that the program did not find; empty if there is none.

    Args:
        tail: the program's last lines.
    """
    if left_out is None:
        return ""
    tops = tuple({os.path.normpath(work_folder), os.path.realpath(work_folder)})
    for line in reversed(tail):
        is_about_files = _NO_FILE.search(line) is not None
        if not is_about_files and not _NOT_FOUND.search(line):
            continue
        for word, path in _find_paths(line, tops):
            entry = _find_entry(path, left_out.paths)
            if entry and (is_about_files or "/" in word or not entry.endswith("/")):
                return f"{entry} was left out of the job's source by {left_out.ignore_file} ({left_out.remedy})"
    return ""


def _find_paths(line: str, tops: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each word that may be a path below the working directory, and that path: relative to it or to a folder in
    it."""
    words = [next(filter(None, match)) for match in _QUOTED.findall(line)]
    for word in (*words, *_SEPARATORS.split(line)):
        path = os.path.normpath(word) if word else ""
        for top in tops:
            path = path.removeprefix(f"{top}/")
        while path.startswith("../"):
            path = path[len("../") :]
        if path not in ("", ".", "..") and not path.startswith("/"):
            yield word, path


def _find_entry(path: str, entries: Sequence[str]) -> str:
    """Return the left-out file or folder that a path leads to, seen from the top, else from any folder; or nothing."""
    for entry in entries:
        if _leads_to(path, entry.rstrip("/")):
            return entry
    for entry in entries:
        parts = entry.rstrip("/").split("/")
        if any(_leads_to(path, "/".join(parts[number:])) for number in range(1, len(parts))):
            return entry
    return ""


def _leads_to(path: str, entry: str) -> bool:
    return path == entry or path.startswith(f"{entry}/")
