"""The archive of our own programs that nodes unpack: pure Python, and the same bytes for the same version.

It holds compiled files for the submitter's version of Python beside the sources: a node with the same version starts
our programs in a tenth of the time, any other compiles them itself.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import tony
from tony.schedulers.yarn.compiling import compiled
from tony.schedulers.yarn.made import made_once
from tony.storage.cache import Cache, Stored

if TYPE_CHECKING:
    import zipfile

#: Rooms of the package that only a client needs.
_CLIENT_ONLY = frozenset({"cli", "client", "mini", "testing"})
_ZIP_TIME = (2000, 1, 1, 0, 0, 0)
_START = "schedulers/yarn/launch"


def store_runtime(cache: Cache) -> Stored:
    """Puts the archive into the cache. It is made again only if a file of ours has changed.

    Raises:
        StorageError: the file system says no.
    """
    return made_once(cache, "stage our own programs", f"runtime-{_fingerprint()}", _archive)


def _root() -> Path:
    return Path(tony.__file__).resolve().parent


def _files() -> Iterator[tuple[str, os.stat_result]]:
    """Every file that goes in, by its path below the package, sorted."""
    root = str(_root())
    found = []
    for folder, folders, files in os.walk(root):
        below = os.path.relpath(folder, root)
        folders[:] = [name for name in folders if name != "__pycache__" and not (below == "." and name in _CLIENT_ONLY)]
        for name in files:
            if name.endswith((".py", ".sh")):
                path = os.path.normpath(os.path.join(below, name))
                found.append((path, os.stat(os.path.join(root, path))))
    return iter(sorted(found, key=lambda each: each[0]))


def _fingerprint() -> str:
    """Tells one state of our files, and one version of Python, from another without reading them."""
    digest = hashlib.sha256(importlib.util.MAGIC_NUMBER)
    for path, status in _files():
        digest.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:32]


def _archive() -> bytes:
    import zipfile  # late: it loads every compressor

    members = []
    for path, _ in _files():
        starts = path.startswith(_START + "/") and not path.endswith("__init__.py")
        members.append((os.path.basename(path) if starts else f"tony/{path}", (_root() / path).read_bytes()))
    modules = [member for member in members if member[0].startswith("tony/") and member[0].endswith(".py")]
    codes = dict(zip((name for name, _ in modules), compiled(modules), strict=True))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, content in members:
            _add(archive, name, content)
            if name in codes:
                _add(archive, importlib.util.cache_from_source(name), codes[name])
    return buffer.getvalue()


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    import zipfile

    info = zipfile.ZipInfo(name, _ZIP_TIME)
    info.external_attr = (stat.S_IFREG | 0o644) << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, content)
