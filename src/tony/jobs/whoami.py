"""The name of the current user."""

from __future__ import annotations

import getpass
import os


def get_user_name() -> str:
    """Return the name of the current user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.geteuid()}"
