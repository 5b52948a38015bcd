"""Finds a scheduler by its word in the job file."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from tony.schedulers.base import Scheduler

_HOMES = {"local": "tony.schedulers.local:LocalScheduler"}


def names() -> tuple[str, ...]:
    """Every word that `scheduler.name` may have."""
    return tuple(_HOMES)


def load(name: str) -> Scheduler:
    """Makes the scheduler of that name.

    Raises:
        LookupError: there is none.
    """
    return cast(Scheduler, getattr(import_module(module_of(name)), _HOMES[name].partition(":")[2])())


def module_of(name: str) -> str:
    """The package that a scheduler lives in.

    Raises:
        LookupError: there is none of that name.
    """
    return _HOMES[name].partition(":")[0]
