"""Who we are."""

from __future__ import annotations

import getpass
import os


def user_name() -> str:
    """Who we are, for the record."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.geteuid()}"
