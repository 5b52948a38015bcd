"""The user's home folder."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping


def find_home_folder(environ: Mapping[str, str]) -> str | None:
    """Return the home folder: HOME, else the one in the password database; None if neither is set."""
    if environ.get("HOME"):
        return environ["HOME"]
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return None
