"""Event logs of simulated jobs as a reader finds them."""

from __future__ import annotations

from random import Random

from tests.core.random_jobs import Life
from tests.support.simulation import Simulation
from tony.core import events as ev
from tony.history.event_log import LogEntry, settings_digest
from tony.model.job_spec import JobSpec
from tony.model.staged_files import StagedJob
from tony.model.submission_record import RECORD_VERSION, JobRecord


def record(spec: JobSpec) -> JobRecord:
    """Who submitted it: ann, at second 1000."""
    return JobRecord(
        version=RECORD_VERSION,
        job_id="sim",
        user="ann",
        host="h",
        submitted=1000.0,
        tony_version="1",
        spec=spec,
        staged=StagedJob(roles={}),
        framework_module="",
    )


def entries(cluster: Simulation) -> list[LogEntry]:
    return entries_of(cluster.log)


def entries_of(log: list[tuple[ev.Event, float]]) -> list[LogEntry]:
    """Events with their times as entries of a log."""
    return [
        LogEntry(seq=number, at=at, wall=1000.0 + at, attempt=1, event=event)
        for number, (event, at) in enumerate(log, 1)
    ]


def life(seed: int, faults: tuple[str, ...] | None = None) -> Life:
    """A whole random life, in which time passes between any two steps."""
    chance = Random(seed)
    lived = Life(chance, faults=faults)
    lived.cluster.begin(settings_digest(lived.spec))
    for _ in range(chance.randint(0, 250)):
        if lived.cluster.finished:
            break
        lived.cluster.now += chance.choice((0.0, 0.01, 0.5, 7.0))
        lived.step()
    lived.end()
    return lived
