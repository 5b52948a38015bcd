"""Records that are kept, however old: a small file in their folder says so, wherever that is."""

from __future__ import annotations

import contextlib
import json
import os

from tony import clock
from tony.storage.store import FileStore, joined

#: What the file is called; `JobFolder.pinned`.
PIN = "pinned.json"


def pin(store: FileStore, path: str, actor: str) -> bool:
    """Keeps a record; False if it was kept already.

    Args:
        path: of its folder.

    Raises:
        TonyError: the file system refuses.
    """
    if store.find(joined(path, PIN)):
        return False
    store.write(joined(path, PIN), json.dumps({"actor": actor, "at": clock.wall()}).encode() + b"\n")
    _stir(store, path)
    return True


def unpin(store: FileStore, path: str) -> bool:
    """Lets it go when its time has come; False if it was not kept.

    Raises:
        TonyError: the file system refuses.
    """
    if not store.find(joined(path, PIN)):
        return False
    store.remove(joined(path, PIN))
    _stir(store, path)
    return True


def _stir(store: FileStore, path: str) -> None:
    """Whoever watches the folder of all records sees that something has happened."""
    if store.local is not None:
        with contextlib.suppress(OSError):
            os.utime((store.local / path).parent)
