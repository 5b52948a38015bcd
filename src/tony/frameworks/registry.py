"""Finds a framework's adapter by its name in the job file."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING

from tony.errors import Problem
from tony.frameworks.base import Framework
from tony.model.job_spec import JobSpec
from tony.model.states import DistributedMode

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_BUILT_IN = {
    "tensorflow": "tony.frameworks.tensorflow:TensorFlow",
    "pytorch": "tony.frameworks.pytorch:PyTorch",
    "jax": "tony.frameworks.jax:Jax",
    "mxnet": "tony.frameworks.mxnet:MxNet",
    "horovod": "tony.frameworks.horovod:Horovod",
    "none": "tony.frameworks.no_framework:NoFramework",
    "standalone": "tony.frameworks.standalone:Standalone",
}
_GROUP = "tony.frameworks"


def names() -> tuple[str, ...]:
    """Return all values of `framework`: the built-in ones, then installed plug-ins."""
    return (*_BUILT_IN, *sorted({point.name for point in _plug_ins()} - _BUILT_IN.keys()))


def home_of(name: str) -> str:
    """Return the adapter's location, as "module:Class"; the executor loads it from there.

    Raises:
        LookupError: there is no framework of that name.
    """
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    for point in _plug_ins():
        if point.name == name:
            return point.value
    raise LookupError(name)


def load(home: str) -> Framework:
    """Load an adapter from "module:Class".

    Raises:
        TypeError: the class is no Framework.
    """
    module, _, attribute = home.partition(":")
    adapter = getattr(import_module(module), attribute)()
    if not isinstance(adapter, Framework):
        raise TypeError(f"{home} is not a tony.frameworks.base.Framework")
    return adapter


def _plug_ins() -> Iterable[EntryPoint]:
    # Imported here: it costs more than everything else that an executor imports, and executors need no plug-in search.
    from importlib.metadata import entry_points

    return entry_points(group=_GROUP)


def one_process_per_task(spec: JobSpec, framework: str) -> list[Problem]:
    """Refuse `procs_per_task` above 1: the framework has one address per task, or needs distinct processes."""
    return [
        Problem(
            key=f"roles.{name}.procs_per_task",
            value=str(role.procs_per_task),
            message=f'framework = "{framework}" runs one process per task. Set procs_per_task = 1 and raise '
            "instances instead.",
        )
        for name, role in spec.effective_roles.items()
        if role.procs_per_task > 1
    ]


def whole_gang(spec: JobSpec, framework: str) -> list[Problem]:
    """Refuse `distributed_mode = "fcfs"`: a program started before its peers registered lacks their addresses."""
    if spec.distributed_mode is not DistributedMode.FCFS:
        return []
    return [
        Problem(
            key="distributed_mode",
            value=spec.distributed_mode.value,
            message=f'framework = "{framework}" passes the address of rank 0 to every program, which is not known '
            'before all tasks have registered. Set distributed_mode = "gang", or framework = "none" if the programs do '
            "not need each other.",
        )
    ]
