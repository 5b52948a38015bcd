"""Pins: a small file in a job directory that exempts it from retention."""

from __future__ import annotations

import contextlib
import json
import os

from tony import clock
from tony.storage.stores.store_interface import FileStore, joined

#: Name of the file; see `JobFolder.pinned`.
PIN = "pinned.json"


def pin(store: FileStore, path: str, actor: str) -> bool:
    """Pin a job; return False if it is pinned already.

    Args:
        path: of the job directory.

    Raises:
        TonyError: the file cannot be written.
    """
    if store.find(joined(path, PIN)):
        return False
    store.write(joined(path, PIN), json.dumps({"actor": actor, "at": clock.wall()}).encode() + b"\n")
    _touch_parent(store, path)
    return True


def unpin(store: FileStore, path: str) -> bool:
    """Unpin a job; return False if it is not pinned.

    Raises:
        TonyError: the file cannot be removed.
    """
    if not store.find(joined(path, PIN)):
        return False
    store.remove(joined(path, PIN))
    _touch_parent(store, path)
    return True


def _touch_parent(store: FileStore, path: str) -> None:
    """Touch the parent folder, so that scanners notice the change."""
    if store.local is not None:
        with contextlib.suppress(OSError):
            os.utime((store.local / path).parent)
