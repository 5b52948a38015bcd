"""Finds a scheduler by its word in the job file."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from tony.schedulers.interface import Scheduler

_HOMES = {
    "local": "tony.schedulers.local.scheduler:LocalScheduler",
    "yarn": "tony.schedulers.yarn.scheduler:YarnScheduler",
}


#: Those whose jobs leave their log files on other machines, as their `Capabilities` say: who only looks at a job of
#: this machine need not load what could say it.
_ELSEWHERE = frozenset({"yarn"})


def is_elsewhere(name: str) -> bool:
    """Whether a scheduler's jobs leave their log files on other machines."""
    return name in _ELSEWHERE


def names() -> tuple[str, ...]:
    """Every word that `scheduler.name` may have."""
    return tuple(_HOMES)


def load(name: str) -> Scheduler:
    """Makes the scheduler of that name.

    Raises:
        LookupError: there is none.
    """
    module, _, class_name = _HOMES[name].partition(":")
    return cast("Scheduler", getattr(import_module(module), class_name)())


def package_of(name: str) -> str:
    """The package that a scheduler lives in; its module `settings` tells what can be set.

    Raises:
        LookupError: there is none of that name.
    """
    return _HOMES[name].partition(":")[0].rpartition(".")[0]
