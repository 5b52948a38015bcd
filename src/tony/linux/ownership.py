"""Users who can change a file: its owner, and those who may write to it or to a folder above it."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def only_root_can_change(path: str) -> bool:
    """Return True if only root can change or replace a file.

    The file and every folder above it must belong to root, and no other user may write to them. In a sticky folder such
    as `/tmp` other users may create files, but can neither rename nor remove one of root's.

    Args:
        path: absolute, without symbolic links.
    """
    target = Path(path)
    try:
        statuses = [target.lstat(), *(folder.lstat() for folder in target.parents)]
    except OSError:
        return False
    return all(_is_protected(status) for status in statuses)


def _is_protected(status: os.stat_result) -> bool:
    if status.st_uid != 0 or stat.S_ISLNK(status.st_mode):
        return False
    is_sticky_folder = stat.S_ISDIR(status.st_mode) and bool(status.st_mode & stat.S_ISVTX)
    return is_sticky_folder or not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
