"""Where all state of a user lies: found, made, and kept from others."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tony.config.paths import expanded, home_folder
from tony.errors import StorageError, UserError
from tony.model.layout import Home

#: What names the folder in the environment.
VARIABLE = "TONY_HOME"


def find_state_dir(environment: Mapping[str, str]) -> Home:
    """The user's folder: `TONY_HOME`, else `~/.tony`. Nothing is made yet.

    Args:
        environment: of the process; without HOME the user's entry in the password file says where home is.

    Raises:
        UserError: `TONY_HOME` names something else than a folder, or begins with a `~` that nobody knows.
        StorageError: neither the environment nor the password file knows a home.
    """
    chosen = environment.get(VARIABLE)
    if chosen:
        try:
            path = Path(os.path.abspath(expanded(chosen, environment)))
        except ValueError as error:
            raise UserError(f"{VARIABLE} is {chosen}, and {error}") from None
        if os.path.lexists(path) and not os.path.isdir(path):
            what = "a link that leads to no folder" if os.path.islink(path) else "not a folder"
            raise UserError(f"{VARIABLE} is {path}, which is {what}. Set it to a folder of yours.")
        return Home(path)
    home = home_folder(environment)
    if home is None:
        raise StorageError(
            f"no home folder: HOME is not set and user {os.geteuid()} is not in the password file. "
            f"Set {VARIABLE} to a folder of yours."
        )
    return Home(Path(os.path.abspath(home)) / ".tony")


def prepare(home: Home) -> None:
    """Makes the folders that every job needs; may be called again.

    What is made is readable by its owner only. A folder that the user had already and named in `TONY_HOME` keeps its
    mode, since it may hold other things; `jobs/` and `cache/` in it are closed to others in every case.

    Raises:
        StorageError: a folder cannot be made or written, or belongs to somebody else.
    """
    for folder in (home.path, home.jobs, home.cache):
        try:
            folder.mkdir(mode=0o700, parents=folder == home.path, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"cannot make {folder}: {error.strerror}. Set {VARIABLE} to a folder that you may write."
            ) from error
    for folder in (home.jobs, home.cache):
        _close_to_others(folder)


def _close_to_others(folder: Path) -> None:
    status = folder.stat()
    if status.st_uid != os.geteuid():
        raise StorageError(
            f"{folder} belongs to user {status.st_uid}, not to you. Set {VARIABLE} to a folder of your own."
        )
    if status.st_mode & 0o077:
        folder.chmod(0o700)
    if not os.access(folder, os.W_OK):
        raise StorageError(f"{folder} cannot be written. Set {VARIABLE} to a folder that you may write.")
