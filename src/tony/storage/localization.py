"""Gives a container what its task needs: the source and files in its working directory, and its Python.

Runs where the container is; standard library only. Two things lie outside the working directory, which belongs to the
user's program alone: `../.localized/<name>/done`, which says that the folder is complete, and
`../.localized/<name>/bin/`, where `python` is if it has to be brought about.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tony.model.codec import to_plain
from tony.model.staged import Placement, StagedItem, StagedRole
from tony.storage.disk_errors import explain_os_error
from tony.storage.file_copy import Copier, SourceChangedError, clear
from tony.storage.object_cache import Cache
from tony.storage.python_interpreters import Interpreter, from_archive, from_node
from tony.storage.unpack_cache import copy_tree_for_task

__all__ = ["Interpreter", "localize"]


def localize(
    role: StagedRole, cache: Path, work_folder: Path, env: Mapping[str, str] = MappingProxyType({})
) -> Interpreter:
    """Lays a role's source and files into a task's working directory and readies its Python. Blocks.

    May be called again: a folder that is complete is left as its programs made it; one that a crash left half-laid is
    laid once more. Later items replace what earlier ones put under the same name, so what `files` names wins over the
    source.

    Args:
        role: what staging made.
        cache: the node's cache with the staged objects; other tasks may be using it.
        work_folder: made if it is not there.
        env: variables for whatever has to be run for that (conda-unpack), by which it can be found and ended.

    Raises:
        ArchiveError: an archive is damaged, not safe to unpack, or holds no Python.
        StorageError: the file system says no; a staged object is missing; the interpreter is not on this node.
    """
    objects = Cache(cache)
    beside = work_folder.parent / ".localized" / work_folder.name
    interpreter = _interpreter(role, objects, beside, env)
    with explain_os_error(f"fill {work_folder}", work_folder.parent):
        beside.mkdir(mode=0o700, parents=True, exist_ok=True)
        done = beside / "done"
        if not (work_folder.is_dir() and _says(done, role)):
            work_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            copier = Copier()
            for item in role.items:
                _lay(objects, item, work_folder, copier)
            _mark(done, role)
    return interpreter


def _interpreter(role: StagedRole, cache: Cache, beside: Path, env: Mapping[str, str]) -> Interpreter:
    for item in role.items:
        if item.placement is Placement.PYTHON:
            return from_archive(cache, item, env)
    return from_node(role.python, beside / "bin") if role.python else Interpreter()


def _lay(cache: Cache, item: StagedItem, work_folder: Path, copier: Copier) -> None:
    if item.placement is Placement.ROOT:
        copy_tree_for_task(cache, item, work_folder, copier)
        return
    if item.placement is Placement.PYTHON:
        return
    place = work_folder / item.name
    place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    clear(place)
    if item.placement is Placement.FOLDER:
        place.mkdir(mode=0o755)
        copy_tree_for_task(cache, item, place, copier)
    else:
        _lay_file(cache, item, place, copier)


def _lay_file(cache: Cache, item: StagedItem, place: Path, copier: Copier) -> None:
    origin = cache.require(item.digest, item.size, item.name)
    try:
        copier.copy(str(origin), str(place), mode=item.mode, size=item.size)
    except SourceChangedError as error:
        raise cache.missing(item.digest, item.name) from error


def _says(done: Path, role: StagedRole) -> bool:
    try:
        return done.read_text(encoding="ascii") == _fingerprint(role)
    except OSError:
        return False


def _mark(done: Path, role: StagedRole) -> None:
    part = done.with_name(f".{done.name}.{os.urandom(4).hex()}")
    part.write_text(_fingerprint(role), encoding="ascii")
    os.replace(part, done)


def _fingerprint(role: StagedRole) -> str:
    """Tells one role's needs from another's."""
    return hashlib.sha256(json.dumps(to_plain(role), sort_keys=True).encode()).hexdigest()
