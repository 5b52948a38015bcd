"""Where the files of a site's administrators lie, and which of them there are; `site_policy` reads them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tony.config.paths import home_folder


def default_site_files(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Where site files lie: the machine's, then the user's own. A user of whom nobody knows a home has none."""
    machine = Path("/etc/tony/tony.toml")
    config = environ.get("XDG_CONFIG_HOME", "")
    if config.startswith("/"):
        return machine, Path(config, "tony", "tony.toml")
    home = home_folder(environ)
    return (machine,) if home is None else (machine, Path(home, ".config", "tony", "tony.toml"))


def is_absent(path: Path) -> bool:
    """Whether there is no such file."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        pass  # it is there and we may not read it: that is told, its rules may not be passed over
    return False
