"""Look up a scheduler by its name in the job file: those of tony, and installed ones (group `tony.schedulers`)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, cast

from tony.errors import InfraError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from tony.model.state_directory import Home
    from tony.model.submission_record import JobRecord
    from tony.schedulers.capabilities import Capabilities
    from tony.schedulers.client_interface import Scheduler, Submitter

_BUILT_IN = {
    "local": "tony.schedulers.local.scheduler:LocalScheduler",
    "yarn": "tony.schedulers.yarn.scheduler:YarnScheduler",
    "kubernetes": "tony.schedulers.kubernetes.scheduler:KubernetesScheduler",
}
_GROUP = "tony.schedulers"


def names() -> tuple[str, ...]:
    """Return every valid value of `scheduler.name`: the built-in ones, then installed plug-ins."""
    return (*_BUILT_IN, *plug_in_names())


def plug_in_names() -> tuple[str, ...]:
    """Return the names of installed plug-ins."""
    return tuple(sorted({point.name for point in _plug_ins()} - _BUILT_IN.keys()))


def list_built_in_names() -> tuple[str, ...]:
    """Return the names of the schedulers of tony itself, without searching for plug-ins, which takes milliseconds."""
    return tuple(_BUILT_IN)


def class_of(name: str) -> str:
    """Return a scheduler's class as "module:Class".

    Raises:
        LookupError: there is none of that name.
    """
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    for point in _plug_ins():
        if point.name == name:
            return point.value
    raise LookupError(name)


def load(name: str) -> Scheduler:
    """Return the scheduler of that name.

    Raises:
        LookupError: there is none.
    """
    module, _, class_name = class_of(name).partition(":")
    return cast("Scheduler", getattr(import_module(module), class_name)())


def load_submitter(home: Home, record: JobRecord) -> Submitter:
    """Return the client half of a job's scheduler.

    Raises:
        InfraError: this installation does not have that scheduler.
    """
    name = record.spec.scheduler
    try:
        return load(name).create_submitter(home)
    except LookupError:
        raise InfraError(
            f"job {record.job_id} was submitted to scheduler {name!r}, which is not installed here"
        ) from None


def package_of(name: str) -> str:
    """Return the package of a scheduler; its modules `settings` and `capabilities` describe it.

    Raises:
        LookupError: there is none of that name.
    """
    return class_of(name).partition(":")[0].rpartition(".")[0]


def capabilities_of(name: str) -> Capabilities:
    """Return what a scheduler can do, without loading the scheduler itself.

    Raises:
        LookupError: there is none of that name.
    """
    return cast("Capabilities", import_module(f"{package_of(name)}.capabilities").CAPABILITIES)


def find_owner(job_id: str) -> str | None:
    """Return the name of the scheduler whose cluster allocates such ids; None if there is none."""
    for name in names():
        pattern = capabilities_of(name).cluster_ids
        if pattern and re.fullmatch(pattern, job_id, re.ASCII):
            return name
    return None


def has_remote_logs(name: str) -> bool:
    """Return True if a scheduler's jobs leave their log files on other machines; False for one not installed here."""
    try:
        return not capabilities_of(name).same_folder
    except LookupError:
        return False


def _plug_ins() -> Iterable[EntryPoint]:
    from importlib.metadata import entry_points  # late: built-in schedulers need no search

    return entry_points(group=_GROUP)
