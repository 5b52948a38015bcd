"""Random plans on real processes: whatever happens, the job ends well, and no program starts twice."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.e2e.lab import Lab
from tests.e2e.recorded_job import FAULTY_EXECUTORS, TASKS, Rehearsal
from tests.e2e.test_master_killed import am_fault_setting
from tests.support.faults.crash_points import read_injected
from tests.support.faults.plan import FillDisk, ProcessKind, Within
from tests.support.faults.plan_parser import format_fault, write_plan
from tests.support.faults.random_plan import random_plan
from tony.model.ids import TaskId

pytestmark = pytest.mark.e2e

#: No suspended process is given up, and there are AM attempts enough for every fault.
HEAD = 'am_attempts = 10\nheartbeat_interval = "100ms"\nheartbeat_timeout = "60s"\n'


def rehearse(lab: Lab, seed: int) -> None:
    """Up to five faults among all processes of the reference job."""
    drawn = random_plan(seed, [TaskId.parse(task) for task in TASKS], faults=5, longest=2.0)
    # A master without room on its disk gives the job up, rightly: that has a test of its own.
    faults = [s for s in drawn.faults if not (isinstance(s.harm, FillDisk) and s.target.part is ProcessKind.MASTER)]
    inside = "; ".join(format_fault(planned) for planned in faults if isinstance(planned.moment, Within))
    plan = write_plan(replace(drawn, faults=tuple(faults)))
    job = Rehearsal(
        lab,
        FAULTY_EXECUTORS,
        *([am_fault_setting(inside)] if inside else []),
        restarts=6,
        head=HEAD,
        name=f"seed-{seed}",
    )
    with job.injector(plan) as injector:
        status = lab.wait(job.job)
    fell = [*map(str, injector.injected), *read_injected(job.folder)]
    story = f"seed {seed}, plan:\n{plan}\ninjected: {fell}\n{status}\nmasters said:\n{job.said()[-6000:]}"
    assert (status["state"], status["exit_code"]) == ("succeeded", 0), story
    assert max(Counter(job.starts()).values()) == 1, story
    assert job.replays() == "", story


@pytest.mark.parametrize("seed", [3, 38])
def test_a_job_survives_random_faults(lab: Lab, seed: int) -> None:
    rehearse(lab, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 160))
def test_a_job_survives_random_faults_many_times(lab: Lab, seed: int) -> None:
    rehearse(lab, seed)
