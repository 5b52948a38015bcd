"""Location of the ledger: one folder for all users of the machine, or one per user where that cannot be created."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

from tony.errors import SchedulerError
from tony.model.layout import Home
from tony.schedulers.local.claims.ledger import LedgerBusyError, ResourceLedger
from tony.schedulers.local.settings import DEFAULT_LEDGER, LocalSettings

#: All users may add files, only a file's owner may remove it.
_SHARED = 0o1777
#: Checks of a folder that another process may be creating at this moment, and seconds between them.
_CHECKS = 3
_CHECK_SECONDS = 0.05


def open_ledger(settings: LocalSettings, home: Home, shared: Path = DEFAULT_LEDGER) -> tuple[ResourceLedger, str]:
    """Open the ledger; create it if it does not exist.

    Args:
        home: state directory that holds the user's own ledger if the shared folder cannot be used.
        shared: the folder for all users when the settings name none.

    Returns:
        The ledger, and a warning about its location (empty if there is none).

    Raises:
        SchedulerError: no folder can be used.
    """
    if settings.ledger is not None:
        problem = _prepare(settings.ledger)
        if problem:
            raise SchedulerError(_explain(settings.ledger, problem))
        return _open(settings.ledger), ""
    problem = _prepare(shared)
    if not problem:
        return _open(shared), ""
    own = find_own_ledger(home)
    own_problem = _prepare(own)
    if own_problem:
        raise SchedulerError(f"cannot create a ledger: {shared}: {problem}; {own}: {own_problem}")
    return _open(own), format_fallback_notice(shared, problem, own)


def find_own_ledger(home: Home) -> Path:
    """Return the path of a user's own ledger, used if there is no shared one."""
    return home.path / "ledger"


def format_fallback_notice(shared: Path, problem: str, own: Path) -> str:
    """Return the warning for a user whose jobs do not see those of other users."""
    return (
        f"the machine's ledger {shared} cannot be used ({problem}), so {own} is used: memory and GPUs in use by jobs "
        f"of other users are not taken into account. To fix it, an administrator can run: mkdir -m 1777 {shared}"
    )


def explain_unusable(path: Path) -> str:
    """Return why a folder cannot be the ledger; empty if it can. Changes nothing."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        parent = path.parent
        can_create = os.access(parent, os.W_OK | os.X_OK)
        return "" if can_create else f"it does not exist, and you have no permission to create it in {parent}"
    except OSError as error:
        return str(error.strerror)
    if not stat.S_ISDIR(status.st_mode):
        return "it is not a folder"
    if status.st_uid != os.geteuid() and stat.S_IMODE(status.st_mode) & _SHARED != _SHARED:
        return f"it belongs to another user and has mode {stat.S_IMODE(status.st_mode):o} instead of 1777"
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return "you have no write permission"
    return ""


def tidy(path: Path) -> None:
    """Remove files of our own dead jobs from a ledger, if it exists and is not locked."""
    try:
        ledger = ResourceLedger(path)
    except OSError:
        return
    try:
        with ledger.lock():
            ledger.list_claims()
    except (LedgerBusyError, SchedulerError):
        pass  # the next reader removes it
    finally:
        ledger.close()


def _prepare(path: Path) -> str:
    try:
        path.mkdir(mode=0o700)
        path.chmod(_SHARED)  # mkdir would apply the umask
    except FileExistsError:
        pass
    except OSError as error:
        return str(error.strerror)
    for _ in range(_CHECKS):
        problem = explain_unusable(path)
        if not problem:
            break
        time.sleep(_CHECK_SECONDS)
    return problem


def _open(path: Path) -> ResourceLedger:
    try:
        return ResourceLedger(path)
    except OSError as error:
        raise SchedulerError(_explain(path, str(error.strerror))) from error


def _explain(path: Path, problem: str) -> str:
    return f"the ledger {path} cannot be used: {problem}. Set scheduler.local.ledger to a writable folder."
