"""Files for the containers: source, environment, resources, class path.

`SOURCE[::NAME][#archive]` means the same in job files. A path without a scheme is on the submitter's machine; in
`--hdfs_classpath` it is in the cluster's file system.
"""

from __future__ import annotations

import posixpath
import stat
import zipfile
from pathlib import Path

from tony.config.legacy.draft_job import DraftJob, LegacyItem, LegacyOrigin
from tony.config.legacy.flags import VENV, Flags
from tony.config.legacy.task_types import LegacyTaskTypes
from tony.config.table.layers import quote
from tony.config.table.value_format import format_name
from tony.errors import Problem
from tony.model.hdfs_uri import is_address
from tony.model.placeholders import escape

_LOCATION = "tony.application.hadoop.location"
_CLASSPATH = "tony.application.hadoop.classpath"
_LOCAL = "file://"


def translate(draft: DraftJob, flags: Flags, types: LegacyTaskTypes) -> None:
    """Add files to the draft."""
    if flags.src_dir is not None:
        draft.put(("source",), _strip_local_scheme(flags.src_dir), LegacyOrigin("--src_dir"))
        draft.put(("gitignore",), False, LegacyOrigin("--src_dir"))  # LinkedIn TonY packs everything
    items = _read_entries(draft, "tony.containers.resources")
    if flags.python_venv is not None:
        items.append((f"{_strip_local_scheme(flags.python_venv)}::{VENV}#archive", LegacyOrigin("--python_venv")))
    items += _class_path(flags)
    items += _hadoop(draft)
    draft.put_list(("files",), _drop_overwritten(draft, items))
    for name in types.instances:
        draft.put_list(("roles", name, "files"), read_files(draft, f"tony.{name}.resources"))


def read_files(draft: DraftJob, key: str) -> list[LegacyItem]:
    """Return the files that a key lists."""
    return _drop_overwritten(draft, _read_entries(draft, key))


def _read_entries(draft: DraftJob, key: str) -> list[LegacyItem]:
    return [(_strip_local_scheme(text), origin) for text, origin in draft.read_items(key)]


def _drop_overwritten(draft: DraftJob, items: list[LegacyItem]) -> list[LegacyItem]:
    """Keep the last of several files with one name, as LinkedIn TonY does; add a note."""
    kept: dict[str, LegacyItem] = {}
    for text, origin in items:
        name = _name(text)
        if name in kept and kept[name][0] != text:
            first, place = kept.pop(name)
            draft.note_part(
                place, f"{first} is left out: {text} ({origin.place}) has the same name, and the last one wins."
            )
        kept[name] = text, origin
    return list(kept.values())


def _name(text: str) -> str:
    path = text.removesuffix("#optional").removesuffix("#archive")
    source, _, name = path.partition("::")
    if not name and is_address(source) and "." not in posixpath.basename(source.rstrip("/")):
        return text  # probably a folder, whose files keep their own names
    return name or posixpath.basename(source.rstrip("/"))


def _strip_local_scheme(path: str) -> str:
    return path.removeprefix(_LOCAL)


def _class_path(flags: Flags) -> list[LegacyItem]:
    """Return the entries of `--hdfs_classpath`; missing ones are skipped at submission."""
    found = []
    for item in (flags.hdfs_classpath or "").split(","):
        path = item.strip()
        if path:
            address = path if "://" in path else f"hdfs:///{path.lstrip('/')}"
            found.append((f"{_strip_local_scheme(address)}#optional", LegacyOrigin("--hdfs_classpath")))
    return found


def _hadoop(draft: DraftJob) -> list[LegacyItem]:
    """Return the Hadoop archive of the programs; set CLASSPATH to the class path inside it."""
    location, path = draft.settings.get(_LOCATION), draft.read_words(_CLASSPATH)
    if location is None or not location.text:
        draft.note_key(_CLASSPATH, f"it has no effect without {_LOCATION}.")
        return []
    archive, _, alias = location.text.partition("#")
    if path:
        draft.values.pop("hadoop_classpath", None)
        draft.put(("env", "CLASSPATH"), escape(":".join(["./*", *path])), draft.origin(_CLASSPATH))
    else:
        draft.note(location, f"without {_CLASSPATH} it is not added to the CLASSPATH of programs.")
    name = f"::{alias}" if alias else ""
    return [(f"{_strip_local_scheme(archive)}{name}#archive", draft.origin(_LOCATION))]


def check_interpreter(draft: DraftJob, flags: Flags, cwd: Path) -> None:
    """Report an interpreter that is not in the archive: every task would fail with `No such file or directory`.

    Reads only local zip files, whose index is quick to read.
    """
    archive, path = flags.python_venv, flags.python_binary_path
    if archive is None or path is None:
        return
    interpreter = posixpath.normpath((path.split() or [""])[0])  # options may follow
    members = _members(cwd / _strip_local_scheme(archive)) if not path.startswith("/") else None
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
