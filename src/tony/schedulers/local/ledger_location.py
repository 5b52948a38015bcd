"""Where the ledger is: one folder for all users of the machine, or, where none can be had, one for each."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

from tony.errors import SchedulerError
from tony.model.layout import Home
from tony.schedulers.local.ledger import LedgerBusy, ResourceLedger
from tony.schedulers.local.settings import DEFAULT_LEDGER, LocalSettings

#: Anybody may add files, only a file's owner may remove it.
_SHARED = 0o1777
#: Times to look again at a folder that somebody else may be making at this moment, and seconds between.
_LOOKS, _PAUSE = 3, 0.05


def open_ledger(settings: LocalSettings, home: Home, shared: Path = DEFAULT_LEDGER) -> tuple[ResourceLedger, str]:
    """Opens the ledger, and makes it if it is not there.

    Args:
        home: takes a ledger of its owner's own if the shared folder cannot be used.
        shared: the folder for all users when the settings name none.

    Returns:
        The ledger, and what is to be said about its place (empty if nothing is).

    Raises:
        SchedulerError: there is no folder that can be used.
    """
    if settings.ledger is not None:
        trouble = _prepare(settings.ledger)
        if trouble:
            raise SchedulerError(_explain(settings.ledger, trouble))
        return _open(settings.ledger), ""
    trouble = _prepare(shared)
    if not trouble:
        return _open(shared), ""
    own = own_ledger(home)
    worse = _prepare(own)
    if worse:
        raise SchedulerError(f"no ledger can be made: {shared}: {trouble}; {own}: {worse}")
    return _open(own), fallback_notice(shared, trouble, own)


def own_ledger(home: Home) -> Path:
    """A user's own ledger, for want of a shared one."""
    return home.path / "ledger"


def fallback_notice(shared: Path, trouble: str, own: Path) -> str:
    """What a user is told whose jobs do not see those of others."""
    return (
        f"the machine's ledger {shared} cannot be used ({trouble}), so {own} is used: memory and GPUs that jobs of "
        f"other users hold are not seen. An administrator can mend it: mkdir -m 1777 {shared}"
    )


def trouble_with(path: Path) -> str:
    """Why a folder cannot be the ledger; empty if it can. Changes nothing."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        parent = path.parent
        return "" if os.access(parent, os.W_OK | os.X_OK) else f"it is missing, and we may not make it in {parent}"
    except OSError as error:
        return str(error.strerror)
    if not stat.S_ISDIR(status.st_mode):
        return "it is no folder"
    if status.st_uid != os.geteuid() and stat.S_IMODE(status.st_mode) & _SHARED != _SHARED:
        return f"it belongs to somebody else and has mode {stat.S_IMODE(status.st_mode):o} instead of 1777"
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return "we may not write into it"
    return ""


def tidy(path: Path) -> None:
    """Removes what dead jobs of ours left in a ledger, if there is one and nobody is busy with it."""
    try:
        ledger = ResourceLedger(path)
    except OSError:
        return
    try:
        with ledger.locked():
            ledger.claims()
    except (LedgerBusy, SchedulerError):
        pass  # whoever looks next removes it
    finally:
        ledger.close()


def _prepare(path: Path) -> str:
    try:
        path.mkdir(mode=0o700)
        path.chmod(_SHARED)  # not left to mkdir, which the umask would cut
    except FileExistsError:
        pass
    except OSError as error:
        return str(error.strerror)
    for _ in range(_LOOKS):
        trouble = trouble_with(path)
        if not trouble:
            break
        time.sleep(_PAUSE)
    return trouble


def _open(path: Path) -> ResourceLedger:
    try:
        return ResourceLedger(path)
    except OSError as error:
        raise SchedulerError(_explain(path, str(error.strerror))) from error


def _explain(path: Path, trouble: str) -> str:
    return f"the ledger {path} cannot be used: {trouble}. Set scheduler.local.ledger to a folder that can be written."
