"""Where the files of a site's administrators lie, and which of them there are; `site` reads them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def default_site_files(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Where site files lie: the machine's, then the user's own."""
    config = environ.get("XDG_CONFIG_HOME", "")
    home = environ.get("HOME") or os.path.expanduser("~")
    folder = Path(config) if config.startswith("/") else Path(home, ".config")
    return Path("/etc/tony/tony.toml"), folder / "tony" / "tony.toml"


def is_absent(path: Path) -> bool:
    """Whether there is no such file."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        pass  # it is there and we may not read it: that is told, its rules may not be passed over
    return False
