"""Jobs on the simulated cluster, for tests that go on from there."""

from __future__ import annotations

from typing import TypeVar

from tests.support.simulation import Simulation
from tony.core.actions import RequestedAction
from tony.model.job_spec import JobSpec

Kind = TypeVar("Kind", bound=RequestedAction)


def started(spec: JobSpec, capacity: int = 1_000_000, *, gangs: bool = True) -> Simulation:
    """A job in which everything has happened that can happen by itself."""
    simulation = Simulation(spec, capacity, gangs=gangs)
    simulation.begin()
    simulation.run()
    return simulation


def made(simulation: Simulation, kind: type[Kind]) -> list[Kind]:
    """Every action of a kind so far."""
    return [action for action in simulation.actions if isinstance(action, kind)]
