"""Finds errors that would otherwise show only when the tasks run, or never."""

from __future__ import annotations

import posixpath
import stat
import zipfile
from pathlib import Path

from tony.config.checks.hints import Note
from tony.config.files.layers import quote
from tony.config.legacy.draft_job import DraftJob
from tony.config.legacy.flags import Flags
from tony.config.legacy.roles import VENV
from tony.config.legacy.settings_sources import DEFAULT_FILE, is_there
from tony.config.legacy.task_types import LegacyTaskTypes
from tony.config.table.value_format import format_name
from tony.errors import Problem

_LOCAL = "file://"


def check(draft: DraftJob, flags: Flags, types: LegacyTaskTypes, cwd: Path) -> None:
    """Add a note if there is no settings file, and an error if the environment has no such interpreter.

    Args:
        cwd: absolute base of relative paths.
    """
    if types.single and draft.settings.file is None:
        _note_missing_file(draft, flags, cwd)
    if flags.python_venv is not None and flags.python_binary_path is not None:
        _check_interpreter(draft, flags.python_venv, flags.python_binary_path, cwd)


def _note_missing_file(draft: DraftJob, flags: Flags, cwd: Path) -> None:
    """Note that a single program will run, which is seldom meant: `tony.xml` is usually next to the source folder."""
    default_file = Path(flags.src_dir or ".").parent / DEFAULT_FILE
    found = f" Did you mean --conf_file {format_name(str(default_file))}?" if is_there(cwd / default_file) else ""
    message = (
        f"there is no {DEFAULT_FILE} here and no --conf_file, so no number of tasks is set: the program runs as "
        f"a single task.{found}"
    )
    draft.notes.append(Note(key="", message=message))


def _check_interpreter(draft: DraftJob, archive: str, path: str, cwd: Path) -> None:
    """Report an interpreter that is not in the archive: every task would fail with `No such file or directory`.

    Reads only local zip files, whose index is quick to read.
    """
    interpreter = posixpath.normpath((path.split() or [""])[0])  # options may follow
    members = _members(cwd / archive.removeprefix(_LOCAL)) if not path.startswith("/") else None
    if members is None or interpreter in members or any(members.get(each) for each in _folders_above(interpreter)):
        return
    place, last = posixpath.split(interpreter)
    same = [member for member in members if posixpath.basename(member) == last]
    likely = min(same, key=lambda each: (not each.endswith(f"{place}/{last}"), len(each), each), default=None)
    remedy = "name a file of the archive, or an absolute path on the nodes."
    if likely:
        remedy = f"write --python_binary_path={format_name(likely)}"
    message = (
        f"there is no {format_name(interpreter)} in {format_name(archive)}, which is unpacked in {VENV}/; {remedy}"
    )
    draft.problems.append(
        Problem(key="--python_binary_path", value=quote(path), message=message, source="command line")
    )


def _folders_above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _members(archive: Path) -> dict[str, bool] | None:
    """Return name -> whether it is a link, for each member of a zip; None if it is not a readable zip."""
    try:
        with zipfile.ZipFile(archive) as file:
            return {
                posixpath.normpath(member.filename): stat.S_ISLNK(member.external_attr >> 16)
                for member in file.infolist()
            }
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile):
        return None
