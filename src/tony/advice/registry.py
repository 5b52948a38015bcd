"""All heuristics: built-in ones, and those of other packages through the entry points `tony.advice`."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from tony.advice.heuristic import Heuristic

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "tony.advice"
#: Module -> class, in the order of recommendations of the same severity.
_BUILT_IN = {
    "idle_gpus": "IdleGpus",
    "memory_under_requested": "MemoryUnderRequested",
    "memory_over_requested": "MemoryOverRequested",
    "data_bound": "DataBound",
    "checkpoint_interval": "CheckpointInterval",
    "checkpoint_bound": "CheckpointBound",
    "skewed_ranks": "SkewedRanks",
    "futile_restarts": "FutileRestarts",
    "containers_held_after_exit": "ContainersHeldAfterExit",
    "parameter_servers": "ParameterServers",
    "cpu_under_requested": "CpuUnderRequested",
    "cpu_over_requested": "CpuOverRequested",
    "startup_overhead": "StartupOverhead",
}


def load_built_in_heuristics() -> tuple[type[Heuristic], ...]:
    """Return the classes of this package."""
    return tuple(getattr(import_module(f"tony.advice.heuristics.{name}"), cls) for name, cls in _BUILT_IN.items())


def load_heuristics() -> tuple[tuple[Heuristic, ...], tuple[str, ...]]:
    """Return an instance of each heuristic, and an error for each that cannot be loaded."""
    found: list[Heuristic] = [heuristic() for heuristic in load_built_in_heuristics()]
    problems = []
    for point in sorted(_plug_ins(), key=lambda point: point.name):
        try:
            made = point.load()()
        except Exception as error:  # errors of another package must not stop the built-in ones
            problems.append(f"the heuristic {point.name} ({point.value}) cannot be loaded: {error}")
            continue
        if isinstance(made, Heuristic):
            found.append(made)
        else:
            problems.append(f"the heuristic {point.name} ({point.value}) is not a tony.advice.heuristic.Heuristic")
    return tuple(found), tuple(problems)


def _plug_ins() -> Iterable[EntryPoint]:
    return entry_points(group=GROUP)
