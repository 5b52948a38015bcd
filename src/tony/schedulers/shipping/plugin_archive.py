"""The archive of a framework's plug-in: the package or module of its adapter, which nodes do not have.

It is loaded there with the standard library and `tony.frameworks.base` alone, as everywhere.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from tony.errors import ConfigError, Problem
from tony.model.submission_record import JobRecord
from tony.schedulers.shipping.archive_build_cache import build_once
from tony.storage.cache.object_cache import Cache, Stored
from tony.units import format_size

#: Maximum size in bytes. Adapters are small; anything larger is a whole library, which should not be shipped.
MAX_ARCHIVE_BYTES = 16 * 1024 * 1024
_ZIP_TIME = (2000, 1, 1, 0, 0, 0)


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
    digest = hashlib.sha256(top.encode())
    for name, path, status in files:
        digest.update(f"{name}\0{path}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    name = f"plug-in-{digest.hexdigest()[:32]}"
    return build_once(cache, f"stage the framework {top}", name, lambda: _build_archive(files))


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


def _build_archive(files: list[tuple[str, Path, os.stat_result]]) -> bytes:
    import zipfile  # late: it loads every compressor

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, path, _ in files:
            info = zipfile.ZipInfo(name, _ZIP_TIME)
            info.external_attr = (stat.S_IFREG | 0o644) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, path.read_bytes())
    return buffer.getvalue()
