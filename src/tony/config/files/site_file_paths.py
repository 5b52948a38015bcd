"""Paths of the site files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tony.linux.user_accounts import find_home_folder


def default_site_files(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the site files: the machine's, then the user's own, if the user has a home folder."""
    machine = Path("/etc/tony/tony.toml")
    config = environ.get("XDG_CONFIG_HOME", "")
    if config.startswith("/"):
        return machine, Path(config, "tony", "tony.toml")
    home = find_home_folder(environ)
    return (machine,) if home is None else (machine, Path(home, ".config", "tony", "tony.toml"))


def is_absent(path: Path) -> bool:
    """Return True if the file does not exist."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        pass  # unreadable, which must be reported: its rules must not be skipped
    return False
