"""Look up a scheduler by its name in the job file."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from tony.schedulers.interface import Scheduler

_HOMES = {
    "local": "tony.schedulers.local.scheduler:LocalScheduler",
    "yarn": "tony.schedulers.yarn.scheduler:YarnScheduler",
}


#: Schedulers whose `Capabilities` say that log files are on other machines; named here so that readers need not load
#: them.
_ELSEWHERE = frozenset({"yarn"})


def is_elsewhere(name: str) -> bool:
    """Return True if a scheduler's jobs leave their log files on other machines."""
    return name in _ELSEWHERE


def names() -> tuple[str, ...]:
    """Return every valid value of `scheduler.name`."""
    return tuple(_HOMES)


def load(name: str) -> Scheduler:
    """Return the scheduler of that name.

    Raises:
        LookupError: there is none.
    """
    module, _, class_name = _HOMES[name].partition(":")
    return cast("Scheduler", getattr(import_module(module), class_name)())


def package_of(name: str) -> str:
    """Return the package of a scheduler; its module `settings` lists the settings.

    Raises:
        LookupError: there is none of that name.
    """
    return _HOMES[name].partition(":")[0].rpartition(".")[0]
