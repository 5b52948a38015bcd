"""Finds a framework's adapter by its name in the job file."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING

from tony.frameworks.framework_interface import Framework

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


def load(home: str, path: str | None = None) -> Framework:
    """Load an adapter from "module:Class".

    Args:
        path: folder to append to sys.path for a plug-in.

    Raises:
        TypeError: the class is no Framework.
    """
    if path is not None and path not in sys.path:
        sys.path.append(path)
    module, _, attribute = home.partition(":")
    adapter = getattr(import_module(module), attribute)()
    if not isinstance(adapter, Framework):
        raise TypeError(f"{home} is not a tony.frameworks.framework_interface.Framework")
    return adapter


def _plug_ins() -> Iterable[EntryPoint]:
    # Imported here: it costs more than everything else that an executor imports, and executors need no plug-in search.
    from importlib.metadata import entry_points  # late: 30 ms, needed only for names that are not built in

    return entry_points(group=_GROUP)
