"""Python interpreters of jobs: unpacked once per node and content, or already on the node.

    <cache>/unpacked/
      <sha256>/               the environment, with bin/python in it
      <sha256>.json           written last: the environment is complete and works

An environment is prepared in its final place, since conda-unpack writes that path into files; the remains of a killed
process have no `.json` and are removed by the next one. Unlike objects, environments are synced to disk before that
file is written: they are used for long, and their thousands of files are not compared again.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from tony.errors import ArchiveError, StorageError
from tony.linux.disk_errors import explain_os_error
from tony.linux.files import replace_file
from tony.model.staged_files import StagedItem
from tony.storage.cache.file_copy import remove_tree
from tony.storage.cache.object_cache import Cache
from tony.storage.cache.unpack_cache import remove_leftovers
from tony.storage.environments.environment_setup import require_runnable
from tony.storage.manifest import ManifestEntryKind

_NAMES = ("python", "python3")
#: Incremented when environments are prepared in another way: those of older versions are then unpacked again.
_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """Way in which a program gets the job's Python.

    Attributes:
        python_path: folders to put in front of PATH.
        python_env: further variables.
    """

    python_path: tuple[str, ...] = ()
    python_env: Mapping[str, str] = field(default_factory=dict)


def find_prefix(kinds: Mapping[str, ManifestEntryKind]) -> str | None:
    """Return the path of the environment in an archive: empty, or the one top folder with it; None if there is none."""
    if _has_python(kinds, ""):
        return ""
    holding = [path for path in kinds if "/" not in path and _has_python(kinds, f"{path}/")]
    return holding[0] if len(holding) == 1 else None


def from_archive(cache: Cache, item: StagedItem, env: Mapping[str, str] = MappingProxyType({})) -> Interpreter:
    """Return the interpreter of a venv or conda-pack archive, unpacked if this node does not have it yet.

    Args:
        env: variables for programs that have to be run for that.

    Raises:
        ArchiveError: the archive contains no Python, or cannot be unpacked.
        StorageError: the file system refuses, or the environment cannot work on this node.
    """
    place = cache.unpacked / item.digest
    if not _is_complete(place):
        with explain_os_error(f"unpack {item.name}", cache.unpacked), cache.lock(f"python-{item.digest}"):
            if not _is_complete(place):
                _build(cache, item, place, env)
    require_runnable(place / "bin" / "python", f"the archive {item.name}")
    return Interpreter(python_path=(str(place / "bin"),), python_env=build_environment(place))


def from_node(python: str, script_folder: Path) -> Interpreter:
    """Return the interpreter that is on the node.

    Commands say `python`, so `python` and `python3` must be this one, whatever else is in its folder or on PATH. Where
    its own folder does not have both, two small scripts do (with a link, Python would look for its environment next to
    the link).

    Args:
        python: the path of an interpreter or of an environment, or a program's name that is looked up on PATH.
        script_folder: a folder for the two scripts, created if needed.

    Raises:
        StorageError: there is no such program on this node.
    """
    import shutil  # late: it loads every compression module

    found = python if "/" in python else shutil.which(python)
    if found is None:
        raise StorageError(
            f'python = "{python}": not found on PATH on {socket.gethostname()}. '
            "Give its full path, or install it there."
        )
    path = Path(os.path.abspath(found))
    if path.is_dir():
        path = find_interpreter(path)
    require_runnable(path, f'python = "{python}"')
    environment = build_environment(path.parent.parent)
    own = () if ":" in str(path.parent) else (str(path.parent),)  # PATH is split at every `:`
    if own and all(_is_same_file(path, path.with_name(name)) for name in _NAMES):
        return Interpreter(python_path=(str(path.parent),), python_env=environment)
    with explain_os_error(f"write {script_folder}", script_folder):
        script_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in _NAMES:
            _write_script(script_folder / name, path)
    return Interpreter(python_path=(str(script_folder), *own), python_env=environment)


def find_interpreter(prefix: Path) -> Path:
    """Return where the interpreter of an environment is, or should be."""
    programs = [prefix / "bin" / name for name in _NAMES]
    return next(filter(os.path.lexists, programs), programs[0])


def build_environment(prefix: Path) -> dict[str, str]:
    """Return the variables that activating an environment would set; none for a plain interpreter."""
    if (prefix / "pyvenv.cfg").is_file():
        return {"VIRTUAL_ENV": str(prefix)}
    return {"CONDA_PREFIX": str(prefix)} if (prefix / "conda-meta").is_dir() else {}


def _build(cache: Cache, item: StagedItem, place: Path, env: Mapping[str, str]) -> None:
    """Unpack and prepare the environment; the caller holds the lock."""
    # late: only the first task with a new archive needs them, and they would slow down every start of an AM
    from tony.storage.archives.archive_detection import Format
    from tony.storage.archives.unpack import unpack
    from tony.storage.environments.environment_setup import prepare

    cache.unpacked.mkdir(mode=0o700, parents=True, exist_ok=True)
    _record(place).unlink(missing_ok=True)
    remove_leftovers(cache.unpacked, item.digest)
    archive = cache.verify(item)
    part = place.with_name(f".{item.digest}.{os.urandom(4).hex()}")
    try:
        part.mkdir(mode=0o700)
        entries = unpack(archive, Format(item.suffix), part, item.name, outside_links=True)
        prefix = find_prefix({entry.path: entry.kind for entry in entries})
        if prefix is None:
            raise ArchiveError(build_missing_python_error(item.name))
        os.rename(part / prefix, place)
        prepare(place, item.name, env)
        record = _record(place)
        record.write_text(json.dumps({"version": _VERSION, "prefix": str(place)}), encoding="utf-8")
    except BaseException:
        remove_tree(place)
        raise
    finally:
        remove_tree(part)


def build_missing_python_error(name: str) -> str:
    """Return the message for an archive without an interpreter."""
    return (
        f"the archive {name} contains no bin/python. Give a packed venv (`tar -C .venv -czf env.tar.gz .`) "
        "or an archive of conda-pack."
    )


def _is_complete(place: Path) -> bool:
    try:
        record = json.loads(_record(place).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    # The whole cache may have been moved; the environment contains its path and would not work.
    return record == {"version": _VERSION, "prefix": str(place)} and place.is_dir()


def _record(place: Path) -> Path:
    return place.with_name(f"{place.name}.json")


def _has_python(kinds: Mapping[str, ManifestEntryKind], prefix: str) -> bool:
    return any(kinds.get(f"{prefix}bin/{name}") not in (None, ManifestEntryKind.FOLDER) for name in _NAMES)


def _is_same_file(path: Path, other: Path) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


def _write_script(place: Path, interpreter: Path) -> None:
    replace_file(place, os.fsencode(f'#!/bin/sh\nexec {shlex.quote(str(interpreter))} "$@"\n'), mode=0o755)
