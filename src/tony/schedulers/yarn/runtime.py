"""The archive of our own programs that nodes unpack: pure Python, and the same bytes for the same version.

It holds compiled files for the submitter's version of Python beside the sources: a node with the same version starts
our programs in a tenth of the time, any other compiles them itself.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import marshal
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import tony
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

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for path, _ in _files():
            source = (_root() / path).read_bytes()
            if path.startswith(_START + "/") and not path.endswith("__init__.py"):
                _add(archive, os.path.basename(path), source)
                continue
            name = f"tony/{path}"
            _add(archive, name, source)
            if name.endswith(".py"):
                _add(archive, _compiled_name(name), _compiled(name, source))
    return buffer.getvalue()


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    import zipfile

    info = zipfile.ZipInfo(name, _ZIP_TIME)
    info.external_attr = (stat.S_IFREG | 0o644) << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, content)


def _compiled_name(name: str) -> str:
    return importlib.util.cache_from_source(name)


def _compiled(name: str, source: bytes) -> bytes:
    """A compiled file that is taken without a look at its source (PEP 552, unchecked): the archive never changes."""
    code = compile(source, name, "exec", dont_inherit=True, optimize=0)
    unchecked = (0b01).to_bytes(4, "little")
    return importlib.util.MAGIC_NUMBER + unchecked + importlib.util.source_hash(source) + marshal.dumps(code)
