"""The archive of a running job's web pages: `web` and `advice`, and the packages of the extra `web`.

Only the application master's container gets it. Everything in it is pure Python: nodes may have another CPU
architecture and another version of Python. As in `runtime_archive` there are two archives of modules, compiled and as
sources; both have the templates and other data.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import tony
from tony.schedulers.shipping import PAGES_ARCHIVE
from tony.schedulers.shipping.archive_build_cache import build_once, compute_fingerprint
from tony.schedulers.shipping.pyc_compiler import compile_pyc
from tony.schedulers.shipping.runtime_archive import build_zip
from tony.storage.cache.object_cache import Cache, Stored

#: Packages of tony that only the pages need.
_PACKAGES = ("advice", "web")
#: Required distributions, with all their dependencies. MarkupSafe works without its compiled half.
_REQUIRED = ("starlette", "jinja2", "markupsafe", "uvicorn", "h11", "anyio", "idna", "click")
#: Optional: a backport for older versions of Python; the charts, without which pages show numbers.
_OPTIONAL = ("typing_extensions", "metaflow-card-uplot")
_DATA = (".css", ".html", ".js", ".svg")


def store_pages(cache: Cache) -> Stored | None:
    """Put the archive into the cache; return None if the packages are not installed here.

    Raises:
        StorageError: the file system refuses.
    """
    files = _list_files()
    if files is None:
        return None
    fingerprint = compute_fingerprint(importlib.util.MAGIC_NUMBER, ((name, status) for name, _, status in files))
    return build_once(cache, "stage the pages", f"pages-{fingerprint}", lambda: _build_archive(files))


_File = tuple[str, Path, os.stat_result]


def _list_files() -> list[_File] | None:
    """Return every file of the archive, by its name there, sorted."""
    found: dict[str, Path] = {}
    for package in (*_REQUIRED, *_OPTIONAL):
        try:
            distribution = metadata.distribution(package)
        except metadata.PackageNotFoundError:
            if package in _REQUIRED:
                return None
            continue
        for file in distribution.files or ():
            name = file.as_posix()
            if not name.startswith("../") and (name.endswith((".py", *_DATA)) or name.endswith("-info/METADATA")):
                found[name] = Path(str(distribution.locate_file(file)))
    root = Path(tony.__file__).resolve().parent
    for package in _PACKAGES:
        for name in _iterate_below(root, root / package):
            found[f"tony/{name}"] = root / name
    return [(name, path, path.stat()) for name, path in sorted(found.items())]


def _iterate_below(root: Path, folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        if path.suffix in (".py", *_DATA) and path.is_file():
            yield path.relative_to(root).as_posix()


def _build_archive(files: list[_File]) -> bytes:
    modules, codes, data = [], [], []
    for name, path, _ in files:
        content = path.read_bytes()
        if name.endswith(".py"):
            modules.append((name, content))
            codes.append((f"{name}c", compile_pyc(content, path, name)))
        else:
            data.append((name, content))
    return build_zip(
        [
            (f"{PAGES_ARCHIVE}.zip", build_zip([*modules, *data], packed=False)),
            (f"{PAGES_ARCHIVE}-{sys.implementation.cache_tag}.zip", build_zip([*codes, *data], packed=False)),
        ],
        packed=True,
    )
