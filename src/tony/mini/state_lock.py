"""One command at a time changes a small cluster of a state directory."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator

from tony.errors import StorageError, UserError
from tony.model.state_directory import Home


@contextlib.contextmanager
def lock_state_directory(home: Home, *, wait: bool = False) -> Iterator[None]:
    """Lock against concurrent changes. Locks the state directory itself, so that no file is left.

    Args:
        wait: wait while another process has the lock, instead of raising UserError.
    """
    try:
        home.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(home.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise StorageError(f"cannot use {home.path}: {error.strerror}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    except BlockingIOError:
        text = f"another tony mini is changing the cluster in {home.path}; try again when it has finished"
        raise UserError(text) from None
    finally:
        os.close(handle)
