"""The archive of a framework's plug-in: the package or module of its adapter, which nodes do not have.

It is loaded there with the standard library and `tony.frameworks.base` alone, as everywhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from tony.errors import ConfigError, Problem
from tony.model.submission_record import JobRecord
from tony.schedulers.shipping.archive_build_cache import build_once, compute_fingerprint
from tony.schedulers.shipping.runtime_archive import build_zip
from tony.storage.cache.object_cache import Cache, Stored
from tony.units import format_size

#: Maximum size in bytes. Adapters are small; anything larger is a whole library, which should not be shipped.
MAX_ARCHIVE_BYTES = 16 * 1024 * 1024


def store_plug_in(cache: Cache, record: JobRecord) -> Stored | None:
    """Put the archive into the cache; return None if the framework is built in.

    Raises:
        ConfigError: it cannot be shipped.
        StorageError: the file system refuses.
    """
    top = record.framework_module.partition(":")[0].partition(".")[0]
    if top == "tony":
        return None
    files = list(_iterate_files(record.framework_path, top))
    size = sum(status.st_size for _, _, status in files)
    if not files:
        raise _build_refusal(record, f"its adapter {record.framework_module} is not in a shippable package or module")
    if size > MAX_ARCHIVE_BYTES:
        raise _build_refusal(
            record,
            f"its package {top} has {format_size(size)}, but at most {format_size(MAX_ARCHIVE_BYTES)} can be shipped; "
            "keep the adapter in a small package of its own",
        )
    fingerprint = compute_fingerprint(top.encode(), ((f"{name}\0{path}", status) for name, path, status in files))
    members = ((name, path.read_bytes()) for name, path, _ in files)
    return build_once(
        cache, f"stage the framework {top}", f"plug-in-{fingerprint}", lambda: build_zip(members, packed=True)
    )


def _build_refusal(record: JobRecord, why: str) -> ConfigError:
    return ConfigError([Problem(key="framework", value=record.spec.framework, message=f"{why}.")])


def _iterate_files(folder: str | None, top: str) -> Iterator[tuple[str, Path, os.stat_result]]:
    """Yield every file of the package, by its name below the folder, sorted."""
    if folder is None:
        return
    module = Path(folder, f"{top}.py")
    if module.is_file():
        yield module.name, module, module.stat()
        return
    for at, folders, names in os.walk(Path(folder, top)):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            path = Path(at, name)
            if path.is_file() and not name.endswith(".pyc"):
                yield str(path.relative_to(folder)), path, path.stat()
