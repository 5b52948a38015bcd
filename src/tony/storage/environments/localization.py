"""Gives a container what its task needs: the source and files in its working directory, and its Python.

Runs in the container; standard library only. Two things are outside the working directory, which belongs to the user
program alone: `../.localized/<name>/done`, which marks the folder as complete, and `../.localized/<name>/bin/`, which
contains `python` where a script for it is needed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tony.linux.disk_errors import explain_os_error
from tony.linux.files import replace_file
from tony.model.codec import to_plain
from tony.model.staged_files import Placement, StagedItem, StagedRole
from tony.storage.cache.file_copy import SourceChangedError, clear, copy_file
from tony.storage.cache.object_cache import Cache
from tony.storage.cache.unpack_cache import copy_tree_for_task
from tony.storage.environments.environment_cache import Interpreter, from_archive, from_node

__all__ = ["Interpreter", "localize"]


def localize(
    role: StagedRole, cache: Path, work_folder: Path, env: Mapping[str, str] = MappingProxyType({})
) -> Interpreter:
    """Copy a role's source and files into a task's working directory and prepare its Python. Blocks.

    May be called again: a complete folder is left as its programs changed it; one left incomplete by a crash is copied
    once more. Later items replace earlier ones of the same name, so `files` take precedence over the source.

    Args:
        cache: the node's cache with the staged objects; other tasks may be using it.
        work_folder: created if it does not exist.
        env: variables for programs that have to be run (conda-unpack), by which they can be found and killed.

    Raises:
        ArchiveError: an archive is damaged, not safe to unpack, or contains no Python.
        StorageError: the file system refuses; a staged object is missing; the interpreter is not on this node.
    """
    objects = Cache(cache)
    state_folder = work_folder.parent / ".localized" / work_folder.name
    interpreter = _interpreter(role, objects, state_folder, env)
    with explain_os_error(f"fill {work_folder}", work_folder.parent):
        state_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        done = state_folder / "done"
        if not (work_folder.is_dir() and _is_done(done, role)):
            work_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for item in role.items:
                _copy_item(objects, item, work_folder)
            _mark_done(done, role)
    return interpreter


def _interpreter(role: StagedRole, cache: Cache, state_folder: Path, env: Mapping[str, str]) -> Interpreter:
    for item in role.items:
        if item.placement is Placement.PYTHON:
            return from_archive(cache, item, env)
    return from_node(role.python, state_folder / "bin") if role.python else Interpreter()


def _copy_item(cache: Cache, item: StagedItem, work_folder: Path) -> None:
    if item.placement is Placement.ROOT:
        copy_tree_for_task(cache, item, work_folder)
        return
    if item.placement is Placement.PYTHON:
        return
    place = work_folder / item.name
    place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    clear(place)
    if item.placement is Placement.FOLDER:
        place.mkdir(mode=0o755)
        copy_tree_for_task(cache, item, place)
    else:
        _copy_file(cache, item, place)


def _copy_file(cache: Cache, item: StagedItem, place: Path) -> None:
    origin = cache.require(item.digest, item.size, item.name)
    try:
        copy_file(str(origin), str(place), mode=item.mode, size=item.size)
    except SourceChangedError as error:
        raise cache.build_missing_object_error(item.digest, item.name) from error


def _is_done(done: Path, role: StagedRole) -> bool:
    try:
        return done.read_text(encoding="ascii") == _fingerprint(role)
    except OSError:
        return False


def _mark_done(done: Path, role: StagedRole) -> None:
    replace_file(done, _fingerprint(role).encode("ascii"))


def _fingerprint(role: StagedRole) -> str:
    """Return a digest of a role's needs."""
    return hashlib.sha256(json.dumps(to_plain(role), sort_keys=True).encode()).hexdigest()
