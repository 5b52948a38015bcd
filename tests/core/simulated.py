"""Jobs on the simulated cluster, for tests that go on from there."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

from tests.support.simulation import Simulation
from tony.core.actions import RequestedAction
from tony.core.report_builder import Live, ReportContext, build_report
from tony.core.state import Task
from tony.model.ids import TaskId
from tony.model.job_report import JobReport
from tony.model.job_spec import JobSpec
from tony.model.progress import Resumption

Kind = TypeVar("Kind", bound=RequestedAction)
NO_LIVE_REPORTS: Mapping[TaskId, Live] = {}


def started(spec: JobSpec, capacity: int = 1_000_000, *, gangs: bool = True) -> Simulation:
    """A job in which everything has happened that can happen by itself."""
    simulation = Simulation(spec, capacity, gangs=gangs)
    simulation.begin()
    simulation.run()
    return simulation


def made(simulation: Simulation, kind: type[Kind]) -> list[Kind]:
    """Every action of a kind so far."""
    return [action for action in simulation.actions if isinstance(action, kind)]


def seen(
    simulation: Simulation,
    now: float | None = None,
    live: Mapping[TaskId, Live] = NO_LIVE_REPORTS,
    resumptions: Mapping[TaskId, Resumption] = MappingProxyType({}),
) -> JobReport:
    """The report of a job."""

    def find_resumption(task: Task) -> Resumption | None:
        return resumptions.get(task.id)

    around = ReportContext(
        folder="/home/jobs/sim", user="ann", submitted=999.5, live=live, find_resumption=find_resumption
    )
    return build_report(simulation.app, simulation.now if now is None else now, around)
