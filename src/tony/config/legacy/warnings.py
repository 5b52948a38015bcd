"""What would be found out only when the tasks run, or never."""

from __future__ import annotations

import posixpath
import stat
from pathlib import Path

from tony.config.hints import Note
from tony.config.layers import quoted
from tony.config.legacy.draft_job import DraftJob
from tony.config.legacy.flags import Flags
from tony.config.legacy.settings import USUAL_FILE, is_there
from tony.config.legacy.task_command import VENV
from tony.config.legacy.task_types import LegacyTaskTypes
from tony.config.value_format import name
from tony.errors import Problem

_LOCAL = "file://"


def tell(draft: DraftJob, flags: Flags, types: LegacyTaskTypes, cwd: Path) -> None:
    """Notes a settings file that was not found; refuses an interpreter that its environment does not hold.

    Args:
        cwd: absolute; what relative paths are relative to.
    """
    if types.single and draft.settings.file is None:
        _no_file(draft, flags, cwd)
    if flags.python_venv is not None and flags.python_binary_path is not None:
        _no_interpreter(draft, flags.python_venv, flags.python_binary_path, cwd)


def _no_file(draft: DraftJob, flags: Flags, cwd: Path) -> None:
    """Without one the original runs the program alone. That is seldom meant: its users have `tony.xml` beside `src`."""
    beside = Path(flags.src_dir or ".").parent / USUAL_FILE
    found = f" Did you mean --conf_file {name(str(beside))}?" if is_there(cwd / beside) else ""
    message = (
        f"there is no {USUAL_FILE} here and no --conf_file, and nothing says how many tasks there are: the program "
        f"runs alone.{found}"
    )
    draft.notes.append(Note(key="", message=message))


def _no_interpreter(draft: DraftJob, archive: str, path: str, cwd: Path) -> None:
    """Refuses an interpreter that the archive does not hold: every task would fail with `No such file or directory`.

    Only zips of this machine are read: that is quick, however large they are.
    """
    wanted = posixpath.normpath((path.split() or [""])[0])  # behind it may stand options
    members = _members(cwd / archive.removeprefix(_LOCAL)) if not path.startswith("/") else None
    if members is None or wanted in members or any(members.get(each) for each in _folders_above(wanted)):
        return
    place, last = posixpath.split(wanted)
    same = [each for each in members if posixpath.basename(each) == last]
    likely = min(same, key=lambda each: (not each.endswith(f"{place}/{last}"), len(each), each), default=None)
    way_out = "name a file of the archive, or an absolute path of the nodes."
    if likely:
        way_out = f"write --python_binary_path={name(likely)}"
    message = f"there is no {name(wanted)} in {name(archive)}, which is unpacked in {VENV}/; {way_out}"
    draft.problems.append(
        Problem(key="--python_binary_path", value=quoted(path), message=message, source="command line")
    )


def _folders_above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _members(archive: Path) -> dict[str, bool] | None:
    """Name -> whether it is a link, of everything that a zip holds; None if it is none, or cannot be read."""
    import zipfile  # late: few jobs need it

    try:
        with zipfile.ZipFile(archive) as file:
            return {
                posixpath.normpath(each.filename): stat.S_ISLNK(each.external_attr >> 16) for each in file.infolist()
            }
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile):
        return None
