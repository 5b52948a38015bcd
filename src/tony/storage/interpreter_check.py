"""Whether an interpreter can be started here."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from tony.errors import StorageError


def require_runnable(python: Path, what: str) -> None:
    """Refuses an interpreter that is not there or may not be run.

    Args:
        what: what it comes from, for the message.

    Raises:
        StorageError: says which link leads nowhere, if one does.
    """
    host = socket.gethostname()
    if os.path.isfile(python):
        if os.access(python, os.X_OK):
            return
        raise StorageError(f"{what}: {python} on {host} may not be executed. Give it the permission (chmod +x).")
    if os.path.islink(python):
        raise StorageError(
            f"{what}: its bin/{python.name} is a link to {os.path.realpath(python)}, which is not on {host}. A venv "
            "borrows the Python it was made with: install that there, or pack the environment with conda-pack, which "
            "brings its own."
        )
    raise StorageError(f"{what}: there is no {python} on {host}. Give the path of a Python that is there.")
