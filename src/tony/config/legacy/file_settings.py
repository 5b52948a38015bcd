"""Files for the containers: source, environment, resources, class path.

`SOURCE[::NAME][#archive]` means the same in job files. A path without a scheme is on the submitter's machine; in
`--hdfs_classpath` it is in the cluster's file system.
"""

from __future__ import annotations

import posixpath

from tony.config.checks.hints import Note
from tony.config.legacy import value_parsing
from tony.config.legacy.draft_job import DraftJob, LegacyOrigin
from tony.config.legacy.flags import Flags
from tony.config.legacy.roles import VENV
from tony.config.legacy.task_types import LegacyTaskTypes
from tony.model.hdfs_uri import is_address
from tony.model.placeholders import escape

LOCATION = "tony.application.hadoop.location"
CLASSPATH = "tony.application.hadoop.classpath"
_LOCAL = "file://"


def translate(draft: DraftJob, flags: Flags, types: LegacyTaskTypes) -> None:
    """Add files to the draft."""
    if flags.src_dir is not None:
        draft.put(("source",), _strip_local_scheme(flags.src_dir), LegacyOrigin("--src_dir"))
        draft.put(("gitignore",), False, LegacyOrigin("--src_dir"))  # LinkedIn TonY packs everything
    items = [_entry(item) for item in value_parsing.parse_items(draft, "tony.containers.resources")]
    if flags.python_venv is not None:
        items.append((f"{_strip_local_scheme(flags.python_venv)}::{VENV}#archive", LegacyOrigin("--python_venv")))
    items += _class_path(flags)
    items += _hadoop(draft)
    draft.put_list(("files",), drop_overwritten(draft, items))
    for name in types.instances:
        own = [_entry(item) for item in value_parsing.parse_items(draft, f"tony.{name}.resources")]
        draft.put_list(("roles", name, "files"), drop_overwritten(draft, own))


def am_files(draft: DraftJob) -> list[tuple[str, LegacyOrigin]]:
    """Return the files that only the application master gets."""
    return drop_overwritten(draft, [_entry(item) for item in value_parsing.parse_items(draft, "tony.am.resources")])


def drop_overwritten(draft: DraftJob, items: list[tuple[str, LegacyOrigin]]) -> list[tuple[str, LegacyOrigin]]:
    """Keep the last of several files with one name, as LinkedIn TonY does; add a note."""
    kept: dict[str, tuple[str, LegacyOrigin]] = {}
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


def _entry(item: tuple[str, LegacyOrigin]) -> tuple[str, LegacyOrigin]:
    return _strip_local_scheme(item[0]), item[1]


def _class_path(flags: Flags) -> list[tuple[str, LegacyOrigin]]:
    """Return the entries of `--hdfs_classpath`; missing ones are skipped at submission."""
    found = []
    for item in (flags.hdfs_classpath or "").split(","):
        path = item.strip()
        if path:
            address = path if "://" in path else f"hdfs:///{path.lstrip('/')}"
            found.append((f"{_strip_local_scheme(address)}#optional", LegacyOrigin("--hdfs_classpath")))
    return found


def _hadoop(draft: DraftJob) -> list[tuple[str, LegacyOrigin]]:
    """Return the Hadoop archive of the programs; set CLASSPATH to the class path inside it."""
    location, path = draft.settings.get(LOCATION), value_parsing.parse_words(draft, CLASSPATH)
    if location is None or not location.text:
        if value := draft.settings.get(CLASSPATH):
            draft.note(value, f"it has no effect without {LOCATION}.")
        return []
    archive, _, alias = location.text.partition("#")
    value = draft.settings.get(CLASSPATH)
    if path and value:
        draft.values.pop("hadoop_classpath", None)
        draft.put(("env", "CLASSPATH"), escape(":".join(["./*", *path])), value)
    else:
        message = f"without {CLASSPATH} it is not added to the CLASSPATH of programs."
        draft.notes.append(Note(key=LOCATION, message=message, source=location.place))
    name = f"::{alias}" if alias else ""
    return [(f"{_strip_local_scheme(archive)}{name}#archive", LegacyOrigin(location.place, LOCATION))]
