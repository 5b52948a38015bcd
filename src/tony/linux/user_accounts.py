"""Users of this machine: their names, and their home folders."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from functools import lru_cache


@lru_cache(maxsize=1000)
def find_user_name(number: int) -> str:
    """Return the name of a user of this machine; the number if there is none."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def find_home_folder(environ: Mapping[str, str]) -> str | None:
    """Return the home folder: HOME, else the one in the password database; None if neither is set."""
    if environ.get("HOME"):
        return environ["HOME"]
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return None


def expand_home(text: str, environ: Mapping[str, str]) -> str:
    """Expand `~` or `~user` in a path, like a shell.

    Raises:
        ValueError: it begins with `~`, and the user has no home folder.
    """
    if text != "~" and not text.startswith("~/"):
        return os.path.expanduser(text)
    home = find_home_folder(environ)
    if home is None:
        raise ValueError(
            f"`~` is unknown: HOME is not set and user {os.geteuid()} is not in the password database. "
            "Write the full path."
        )
    return home + text[1:]
