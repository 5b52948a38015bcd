"""Builds archives reproducibly, and again only when their inputs have changed: zips and compiled modules."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import marshal
import os
import stat
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from types import CodeType

from tony.linux.disk_errors import explain_os_error
from tony.linux.files import replace_file
from tony.storage.cache.object_cache import Cache, Stored

_ZIP_TIME = (2000, 1, 1, 0, 0, 0)
#: zlib level: a higher one delays the first submission by more than it saves.
_LEVEL = 3
#: Flags of a .pyc file that is not compared with its source.
_UNCHECKED = (0b01).to_bytes(4, "little")
#: Marshal version: the output of later ones depends on what else this process has loaded.
_FORMAT = 2


def compute_fingerprint(seed: bytes, files: Iterable[tuple[str, Path, os.stat_result]]) -> str:
    """Return a digest that identifies files and their state without reading them.

    Args:
        seed: what else the archive depends on.
        files: name in the archive, file on this machine, and its status.
    """
    digest = hashlib.sha256(seed)
    for name, path, status in files:
        digest.update(f"\0{name}\0{path}\0{status.st_size}\0{status.st_mtime_ns}".encode())
    return digest.hexdigest()[:32]


def build_once(cache: Cache, doing: str, name: str, build: Callable[[], bytes]) -> Stored:
    """Return the archive of that name; build it and record it in the cache's index if it is not there.

    Args:
        doing: for messages: `stage tony's own archive`.
        name: file name that identifies the state of the inputs.

    Raises:
        StorageError: the file system refuses.
    """
    known = cache.index / name
    with explain_os_error(doing, cache.path):
        try:
            digest, size = known.read_text(encoding="ascii").split()
            if cache.has(digest, int(size)):
                return Stored(digest=digest, size=int(size), reused=True)
        except (OSError, ValueError):
            pass
        content = build()
        with cache.open_writer(doing, len(content)) as writer:
            writer.write(content)
            stored = writer.commit()
        replace_file(known, f"{stored.digest} {stored.size}".encode("ascii"))
        return stored


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


def compile_pyc(source: bytes, path: Path, name: str) -> bytes:
    """Return an unchecked .pyc file (PEP 552), which Python loads without its source: extracted files never change.

    Reuses the installed .pyc if it belongs to this source, since compiling everything takes seconds.

    Args:
        path: of the source on this machine.
        name: as tracebacks show it.

    Raises:
        SyntaxError, ValueError: it is not Python.
    """
    code = _load_installed(source, path)
    if code is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = compile(source, name, "exec", dont_inherit=True, optimize=0)
    header = importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(source)
    return header + marshal.dumps(_rename_code(code, name), _FORMAT)


def _load_installed(source: bytes, path: Path) -> CodeType | None:
    try:
        content = Path(importlib.util.cache_from_source(str(path))).read_bytes()
        changed = int(path.stat().st_mtime) & 0xFFFFFFFF
    except OSError:
        return None
    stamp = changed.to_bytes(4, "little") + (len(source) & 0xFFFFFFFF).to_bytes(4, "little")
    if not content.startswith(importlib.util.MAGIC_NUMBER + bytes(4) + stamp):
        return None
    try:
        code = marshal.loads(content[16:])
    except (EOFError, TypeError, ValueError):  # a damaged file
        return None
    return code if isinstance(code, CodeType) else None


def _rename_code(code: CodeType, name: str) -> CodeType:
    inner: Iterable[object] = code.co_consts
    constants = tuple(_rename_code(each, name) if isinstance(each, CodeType) else each for each in inner)
    return code.replace(co_filename=name, co_consts=constants)
