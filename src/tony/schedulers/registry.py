"""Look up a scheduler by its name in the job file."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from tony.schedulers.interface import Scheduler

_CLASSES = {
    "local": "tony.schedulers.local.scheduler:LocalScheduler",
    "yarn": "tony.schedulers.yarn.scheduler:YarnScheduler",
}


#: Schedulers whose `Capabilities` say that log files are on other machines; named here so that readers need not load
#: them.
_WITH_REMOTE_LOGS = frozenset({"yarn"})


def has_remote_logs(name: str) -> bool:
    """Return True if a scheduler's jobs leave their log files on other machines."""
    return name in _WITH_REMOTE_LOGS


def names() -> tuple[str, ...]:
    """Return every valid value of `scheduler.name`."""
    return tuple(_CLASSES)


def load(name: str) -> Scheduler:
    """Return the scheduler of that name.

    Raises:
        LookupError: there is none.
    """
    module, _, class_name = _CLASSES[name].partition(":")
    return cast("Scheduler", getattr(import_module(module), class_name)())


def package_of(name: str) -> str:
    """Return the package of a scheduler; its module `settings` lists the settings.

    Raises:
        LookupError: there is none of that name.
    """
    return _CLASSES[name].partition(":")[0].rpartition(".")[0]
