"""Archives that tony builds, in the local cache: built again only when their inputs have changed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable

from tony.linux.file_replacement import replace_file
from tony.storage.cache.object_cache import Cache, Stored
from tony.storage.stores.disk_errors import explain_os_error


def compute_fingerprint(seed: bytes, files: Iterable[tuple[str, os.stat_result]]) -> str:
    """Return a digest that identifies the state of files, by name, without reading them."""
    digest = hashlib.sha256(seed)
    for name, status in files:
        digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:32]


def build_once(cache: Cache, doing: str, name: str, make: Callable[[], bytes]) -> Stored:
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
        content = make()
        with cache.open_writer(doing, len(content)) as writer:
            writer.write(content)
            stored = writer.commit()
        replace_file(known, f"{stored.digest} {stored.size}".encode("ascii"))
        return stored
