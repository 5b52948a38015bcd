"""The archives of code that nodes extract: tony itself, its web pages, and a framework's plug-in.

They are pure Python, since nodes may have another CPU architecture, and the same bytes for the same files. Modules are
in them twice, zipped as Python imports them (PEP 273): compiled for the submitter's version of Python, which loads in a
tenth of the time, and as sources, for any other. So they have few files: a NodeManager without native code starts a
process for each that it extracts.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from importlib import metadata
from pathlib import Path

import tony
from tony.errors import ConfigError, Problem
from tony.model.submission_record import JobRecord
from tony.schedulers.shipping import PAGES_ARCHIVE, SOURCES
from tony.schedulers.shipping.archive_builder import build_once, build_zip, compile_pyc, compute_fingerprint
from tony.storage.cache.object_cache import Cache, Stored
from tony.units import format_size

#: Name in the archive, file on this machine, and its status.
_File = tuple[str, Path, os.stat_result]
#: Packages of tony that only a client needs, and those of the pages.
_EXCLUDED = frozenset({"advice", "cli", "client", "mini", "portal", "testing", "web"})
#: Scripts that find a Python on a node and start a module.
_LAUNCH = "tony/schedulers/shipping/launch/"
#: Prefix of the names of tony's two zips of modules; `launch/start.py` knows it too.
PROGRAMS = "programs"
#: Packages of tony that only the pages need.
_PAGES_PACKAGES = ("advice", "web")
#: Distributions that the pages require, with all their dependencies. MarkupSafe works without its compiled half.
_REQUIRED = ("starlette", "jinja2", "markupsafe", "uvicorn", "h11", "anyio", "idna", "click")
#: Optional: a backport for older versions of Python; the charts, without which pages show numbers.
_OPTIONAL = ("typing_extensions", "metaflow-card-uplot")
_DATA = (".css", ".html", ".js", ".svg")
#: Maximum bytes of a plug-in. Adapters are small; anything larger is a whole library, which should not be shipped.
MAX_PLUG_IN_BYTES = 16 * 1024 * 1024


def store_runtime(cache: Cache) -> Stored:
    """Put the archive of tony itself into the cache, with the scripts that start it.

    Raises:
        StorageError: the file system refuses.
    """
    files = _list_runtime_files()
    return _store(cache, "tony's own archive", "runtime", files, lambda: _build_runtime(files))


def store_modules(cache: Cache) -> Stored:
    """Put one zip of tony's modules into the cache, from which Python imports them as it is.

    Compiled ones are in a folder named after their version of Python, sources for any other in `SOURCES`.

    Raises:
        StorageError: the file system refuses.
    """
    files = _list_runtime_files()
    return _store(cache, "tony's own archive", "modules", files, lambda: _build_modules(files))


def store_pages(cache: Cache) -> Stored | None:
    """Put the archive of the running job's pages into the cache: `web`, `advice`, and the packages of the extra `web`.

    Only the application master's container gets it.

    Returns:
        None if the packages are not installed here.

    Raises:
        StorageError: the file system refuses.
    """
    files = _list_pages_files()
    if files is None:
        return None
    return _store(cache, "the pages", "pages", files, lambda: _build_pages(files))


def store_plug_in(cache: Cache, record: JobRecord) -> Stored | None:
    """Put the archive of a framework's plug-in into the cache: the package or module of its adapter.

    It is loaded on nodes with the standard library and `tony.frameworks.framework_interface` alone, as everywhere.

    Returns:
        None if the framework is built in.

    Raises:
        ConfigError: it cannot be shipped.
        StorageError: the file system refuses.
    """
    top = record.framework_module.partition(":")[0].partition(".")[0]
    if top == "tony":
        return None
    files = _list_plug_in_files(record.framework_path, top)
    size = sum(status.st_size for _, _, status in files)
    why = ""
    if not files:
        why = f"its adapter {record.framework_module} is not in a shippable package or module"
    elif size > MAX_PLUG_IN_BYTES:
        why = (
            f"its package {top} has {format_size(size)}, but at most {format_size(MAX_PLUG_IN_BYTES)} can be shipped; "
            "keep the adapter in a small package of its own"
        )
    if why:
        raise ConfigError([Problem(key="framework", value=record.spec.framework, message=f"{why}.")])
    members = ((name, path.read_bytes()) for name, path, _ in files)
    return _store(cache, f"the framework {top}", "plug-in", files, lambda: build_zip(members, packed=True))


def _store(cache: Cache, what: str, kind: str, files: Iterable[_File], build: Callable[[], bytes]) -> Stored:
    fingerprint = compute_fingerprint(importlib.util.MAGIC_NUMBER, files)
    return build_once(cache, f"stage {what}", f"{kind}-{fingerprint}", build)


# --- files ------------------------------------------------------------------------------------------------------------


def _find_root() -> Path:
    return Path(tony.__file__).resolve().parent


def _list_runtime_files() -> list[_File]:
    found = _walk(_find_root(), excluded=_EXCLUDED)
    return _complete((f"tony/{name}", path) for name, path in found if name.endswith((".py", ".sh")))


def _list_pages_files() -> list[_File] | None:
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
    for package in _PAGES_PACKAGES:
        for name, path in _walk(_find_root() / package):
            if name.endswith((".py", *_DATA)):
                found[f"tony/{package}/{name}"] = path
    return _complete(found.items())


def _list_plug_in_files(folder: str | None, top: str) -> list[_File]:
    if folder is None:
        return []
    module = Path(folder, f"{top}.py")
    if module.is_file():
        return _complete([(module.name, module)])
    return _complete((f"{top}/{name}", path) for name, path in _walk(Path(folder, top)) if path.is_file())


def _walk(root: Path, excluded: Collection[str] = ()) -> Iterator[tuple[str, Path]]:
    """Yield the files below a folder, except compiled ones, with their relative paths.

    Args:
        excluded: folders directly in it that are left out.
    """
    for folder, folders, names in os.walk(root):
        below = os.path.relpath(folder, root)
        folders[:] = [name for name in folders if name != "__pycache__" and not (below == "." and name in excluded)]
        for name in names:
            if not name.endswith(".pyc"):
                yield os.path.normpath(os.path.join(below, name)), Path(folder, name)


def _complete(files: Iterable[tuple[str, Path]]) -> list[_File]:
    return [(name, path, path.stat()) for name, path in sorted(files)]


# --- content ----------------------------------------------------------------------------------------------------------


def _build_runtime(files: Sequence[_File]) -> bytes:
    modules = [(name, path) for name, path, _ in files if not name.startswith(_LAUNCH)]
    scripts = [(name.removeprefix(_LAUNCH), path.read_bytes()) for name, path, _ in files if name.startswith(_LAUNCH)]
    return build_zip([*_zip_modules(PROGRAMS, modules), *scripts], packed=True)


def _build_modules(files: Sequence[_File]) -> bytes:
    modules = [(name, path, path.read_bytes()) for name, path, _ in files if name.endswith(".py")]
    codes = ((f"{sys.implementation.cache_tag}/{name}c", compile_pyc(data, path, name)) for name, path, data in modules)
    return build_zip([*codes, *((f"{SOURCES}/{name}", data) for name, _, data in modules)], packed=True)


def _build_pages(files: Sequence[_File]) -> bytes:
    modules = [(name, path) for name, path, _ in files if name.endswith(".py")]
    data = [(name, path.read_bytes()) for name, path, _ in files if not name.endswith(".py")]
    return build_zip(_zip_modules(PAGES_ARCHIVE, modules, data), packed=True)


def _zip_modules(
    prefix: str, modules: Iterable[tuple[str, Path]], data: Sequence[tuple[str, bytes]] = ()
) -> list[tuple[str, bytes]]:
    """Return the zip of the sources, and that of the compiled modules; both with the data."""
    sources, codes = [], []
    for name, path in modules:
        content = path.read_bytes()
        sources.append((name, content))
        codes.append((f"{name}c", compile_pyc(content, path, name)))
    return [
        (f"{prefix}.zip", build_zip([*sources, *data], packed=False)),
        (f"{prefix}-{sys.implementation.cache_tag}.zip", build_zip([*codes, *data], packed=False)),
    ]
