"""The state directory of a user: found, created, and protected from other users; the user's name."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from pathlib import Path

from tony.errors import StorageError, UserError
from tony.linux.user_accounts import expand_home, find_home_folder
from tony.model.state_directory import Home

#: Environment variable with its path.
VARIABLE = "TONY_HOME"


def find_state_dir(environment: Mapping[str, str]) -> Home:
    """Return the user's state directory: `TONY_HOME`, else `~/.tony`. It is not created.

    Args:
        environment: of the process; without HOME, the home directory comes from the password database.

    Raises:
        UserError: `TONY_HOME` is not a directory, or starts with the `~name` of an unknown user.
        StorageError: there is no home directory in the environment or the password database.
    """
    chosen = environment.get(VARIABLE)
    if chosen:
        try:
            path = Path(os.path.abspath(expand_home(chosen, environment)))
        except ValueError as error:
            raise UserError(f"{VARIABLE} is {chosen}, and {error}") from None
        if os.path.lexists(path) and not os.path.isdir(path):
            what = "a broken link" if os.path.islink(path) else "not a folder"
            raise UserError(f"{VARIABLE} is {path}, which is {what}. Set it to a folder of yours.")
        return Home(path)
    home = find_home_folder(environment)
    if home is None:
        raise StorageError(
            f"no home folder: HOME is not set and user {os.geteuid()} is not in the password database. "
            f"Set {VARIABLE} to a folder of yours."
        )
    return Home(Path(os.path.abspath(home)) / ".tony")


def prepare(home: Home) -> None:
    """Create the folders that every job needs; may be called again.

    New folders are readable by their owner only. An existing folder named by `TONY_HOME` keeps its mode, since it may
    hold other things; `jobs/` and `cache/` in it are always closed to other users.

    Raises:
        StorageError: a folder cannot be created or written, or belongs to another user.
    """
    for folder in (home.path, home.jobs, home.cache):
        try:
            folder.mkdir(mode=0o700, parents=folder == home.path, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"cannot create {folder}: {error.strerror}. Set {VARIABLE} to a folder that you may write."
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
        raise StorageError(f"cannot write {folder}. Set {VARIABLE} to a folder that you may write.")


def get_user_name() -> str:
    """Return the name of the current user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.geteuid()}"
