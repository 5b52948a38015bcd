"""The archive of tony itself that nodes extract: pure Python, and the same bytes for the same version.

Four files, since a NodeManager without native code starts a process for each that it extracts: two scripts that find a
Python, and tony's modules twice, zipped as Python imports them (PEP 273): compiled for the submitter's version of
Python, which loads in a tenth of the time, and as sources, for any other.
"""

from __future__ import annotations

import importlib.util
import io
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import tony
from tony.schedulers.shipping.archive_build_cache import build_once, compute_fingerprint
from tony.schedulers.shipping.pyc_compiler import compile_pyc
from tony.storage.cache.object_cache import Cache, Stored

#: Packages that only a client needs, and those that are shipped in `web_code_archive`.
_EXCLUDED = frozenset({"advice", "cli", "client", "mini", "portal", "testing", "web"})
_ZIP_TIME = (2000, 1, 1, 0, 0, 0)
_START = "schedulers/shipping/launch"
#: Prefix of the names of the two archives of modules; `launch/start.py` knows it too.
PROGRAMS = "programs"
#: zlib level: a higher one delays the first submission by more than it saves.
_LEVEL = 3


def store_runtime(cache: Cache) -> Stored:
    """Put the archive into the cache. It is built again only if a file of tony has changed.

    Raises:
        StorageError: the file system refuses.
    """
    fingerprint = compute_fingerprint(importlib.util.MAGIC_NUMBER, _iterate_files())
    return build_once(cache, "stage tony's own archive", f"runtime-{fingerprint}", _build_archive)


def _find_root() -> Path:
    return Path(tony.__file__).resolve().parent


def _iterate_files() -> Iterator[tuple[str, os.stat_result]]:
    """Return every file of the archive, by its path below the package, sorted."""
    root = str(_find_root())
    found = []
    for folder, folders, files in os.walk(root):
        below = os.path.relpath(folder, root)
        folders[:] = [name for name in folders if name != "__pycache__" and not (below == "." and name in _EXCLUDED)]
        for name in files:
            if name.endswith((".py", ".sh")):
                path = os.path.normpath(os.path.join(below, name))
                found.append((path, os.stat(os.path.join(root, path))))
    return iter(sorted(found, key=lambda each: each[0]))


def _build_archive() -> bytes:
    modules, codes, starters = [], [], []
    for path, _ in _iterate_files():
        starts = path.startswith(_START + "/") and not path.endswith("__init__.py")
        file = _find_root() / path
        content = file.read_bytes()
        if starts:
            starters.append((os.path.basename(path), content))
        elif path.endswith(".py"):
            name = f"tony/{path}"
            modules.append((name, content))
            codes.append((f"{name}c", compile_pyc(content, file, name)))
    return build_zip(
        [
            (f"{PROGRAMS}.zip", build_zip(modules, packed=False)),
            (f"{PROGRAMS}-{sys.implementation.cache_tag}.zip", build_zip(codes, packed=False)),
            *starters,
        ],
        packed=True,
    )


def build_zip(members: Iterable[tuple[str, bytes]], *, packed: bool) -> bytes:
    """Zip reproducibly. Importable archives are not compressed: they would be decompressed at each start."""
    import zipfile  # late: it loads every compressor

    buffer = io.BytesIO()
    kind = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
    with zipfile.ZipFile(buffer, "w", kind) as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name, _ZIP_TIME)
            info.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(info, content, kind, _LEVEL)
    return buffer.getvalue()
