"""Checks that an interpreter can be started on this machine."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from tony.errors import StorageError


def require_runnable(python: Path, what: str) -> None:
    """Refuse an interpreter that does not exist or may not be executed.

    Args:
        what: its origin, for the message.

    Raises:
        StorageError: the message names a dangling link, if there is one.
    """
    host = socket.gethostname()
    if os.path.isfile(python):
        if os.access(python, os.X_OK):
            return
        raise StorageError(f"{what}: {python} on {host} is not executable. Make it executable (chmod +x).")
    if os.path.islink(python):
        raise StorageError(
            f"{what}: its bin/{python.name} is a link to {os.path.realpath(python)}, which does not exist on {host}. "
            "A venv uses the Python it was created with: install that there, or pack the environment with conda-pack, "
            "which includes its own."
        )
    raise StorageError(f"{what}: {python} does not exist on {host}. Give the path of a Python that exists there.")
