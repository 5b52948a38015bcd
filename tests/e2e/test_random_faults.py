"""Random faults of real processes: whatever happens, the job ends well, and no program starts twice."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.e2e.lab import Lab
from tests.e2e.recorded_job import FAULTY_EXECUTOR, TASKS, Rehearsal
from tests.e2e.test_master_killed import DEADLY_STAGES, EVENTS, build_crashing_master
from tests.support.child_modules import JobModules
from tests.support.crashing_master import CrashPoint, read_injected
from tests.support.faults import plan
from tests.support.faults.plan import FaultTarget, Kill, PlannedFault, ProcessKind
from tony.model.ids import TaskId
from tony.model.states import JobState

pytestmark = pytest.mark.e2e

#: No suspended process is given up, and there are AM attempts enough for every fault.
HEAD = 'am_attempts = 10\nheartbeat_interval = "100ms"\nheartbeat_timeout = "60s"\n'
LONGEST_SECONDS = 2.0


def draw_fault(chance: random.Random) -> PlannedFault:
    """Draw one fault of any process of the job. A full disk of the AM has a test of its own: it gives the job up."""
    share, traffic = chance.choice((0.05, 0.1, 0.3, 1.0)), chance.choice(list(plan.Traffic))
    faults: tuple[plan.Fault, ...] = (
        *(Kill(), Kill(), plan.Stop(), plan.FillDisk(), plan.Partition()),
        *(plan.Drop(traffic, share), plan.Duplicate(traffic, share)),
        plan.Delay(traffic, chance.uniform(0, LONGEST_SECONDS / 4), share),
    )
    fault = chance.choice(faults)
    kinds = [ProcessKind.PROGRAM, ProcessKind.PROGRAM, ProcessKind.EXECUTOR, ProcessKind.EXECUTOR, ProcessKind.WATCHDOG]
    kind = chance.choice([*kinds, *([] if isinstance(fault, plan.FillDisk) else [ProcessKind.MASTER])])
    if isinstance(fault, plan.ConnectionFault):
        kind = ProcessKind.EXECUTOR
    task = TaskId.parse(chance.choice(TASKS))
    moments: tuple[plan.Moment, ...] = (
        plan.AtStart(),
        plan.AfterEvent(chance.randint(1, EVENTS)),
        plan.SessionOpens(chance.choice((1, 2))),
        plan.TaskReaches(task, chance.choice(list(plan.TaskMilestone)), chance.choice((None, 1, 2))),
        plan.JobIs(chance.choice((JobState.STARTING, JobState.RUNNING, JobState.RESTARTING, JobState.STOPPING))),
    )
    return PlannedFault(
        fault,
        FaultTarget(kind, None if kind is ProcessKind.MASTER else task),
        chance.choice(moments),
        later=chance.choice((0.0, chance.uniform(0, LONGEST_SECONDS))),
        lasts=chance.uniform(0, LONGEST_SECONDS),
    )


def rehearse(lab: Lab, seed: int) -> None:
    """Run the reference job with up to five faults among all its processes."""
    chance = random.Random(seed)
    faults = [draw_fault(chance) for _ in range(chance.randint(1, 5))]
    crashes = [CrashPoint(chance.choice(DEADLY_STAGES), chance.randint(1, EVENTS)) for _ in range(chance.randint(0, 1))]
    modules = JobModules(executor=FAULTY_EXECUTOR, master=build_crashing_master(*crashes) if crashes else ())
    job = Rehearsal(lab, modules, restarts=6, head=HEAD, name=f"seed-{seed}")
    with job.injector(*faults, seed=seed) as injector:
        status = lab.wait(job.job)
    fell = [*injector.injected, *read_injected(job.folder)]
    story = f"seed {seed}: {faults}, {crashes}\ninjected: {fell}\n{status}\nAMs logged:\n{job.said()[-6000:]}"
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
