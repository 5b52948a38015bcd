"""Injected faults against real processes: what they do to a job, and what they do not."""

from __future__ import annotations

import pytest

from tests.e2e.lab import CEILING, Lab, until
from tests.e2e.recorded_job import FAULTY_NETWORK, Rehearsal, once_in
from tests.scenarios.conftest import only_on
from tests.support.faults.plan import (
    MASTER,
    Delay,
    Drop,
    Duplicate,
    Partition,
    PlannedFault,
    Stop,
    TaskMilestone,
    TaskReaches,
    Traffic,
    executor,
    program,
)
from tony.linux import process
from tony.model.ids import TaskId

pytestmark = pytest.mark.e2e

WORKER = TaskId("worker", 0)


@only_on("local", "yarn", why="looks for processes by the pids that they have; on Kubernetes: tests/kubernetes")
def test_faults_shorter_than_the_timeout_are_no_failure(lab: Lab) -> None:
    """Stopped programs, executors and AM; all of them continue afterwards."""
    job = Rehearsal(lab, calm=True, gate=False, head='heartbeat_timeout = "60s"')
    pids = job.wait_running(1)
    faults = (
        PlannedFault(Stop(), MASTER, lasts=1),
        PlannedFault(Stop(), executor("worker:0"), lasts=1),
        PlannedFault(Stop(), program("worker:1"), lasts=0.5),
    )
    with job.injector(*faults) as injector:
        assert until(lambda: len(injector.injected) == 3, "all faults are injected")
        assert process.is_stopped(pids["worker:1"]) or injector.wait(CEILING)
        assert injector.wait(CEILING)
    assert not [pid for pid in pids.values() if process.is_stopped(pid)]
    job.open_gate()
    status = lab.wait(job.job)
    assert (status["state"], status["session"]) == ("succeeded", 1), status
    assert job.starts() == once_in(1)


@only_on("local", why="replaces the executor's program, which has the faults of the network in it")
def test_a_bad_network_loses_nothing(lab: Lab) -> None:
    """Messages lost, late and doubled, and a partition shorter than the time-out: each program starts and ends once."""
    job = Rehearsal(lab, FAULTY_NETWORK, head='heartbeat_interval = "100ms"\nheartbeat_timeout = "60s"')
    faults = (
        PlannedFault(Drop(Traffic.MESSAGES, share=0.2), executor("worker:0")),
        PlannedFault(Drop(Traffic.COMMANDS, share=0.2), executor("worker:1")),
        PlannedFault(Delay(Traffic.MESSAGES, seconds=0.05, share=0.3), executor("worker:2")),
        PlannedFault(Duplicate(Traffic.MESSAGES, share=0.5), executor("ps:0")),
        PlannedFault(Duplicate(Traffic.COMMANDS), executor("worker:2")),
        PlannedFault(Partition(), executor("worker:0"), TaskReaches(WORKER, TaskMilestone.STARTED), lasts=1),
    )
    with job.injector(*faults, seed=11) as injector:
        status = lab.wait(job.job)
    assert (status["state"], status["session"]) == ("succeeded", 2), status
    assert len(injector.injected) == 6
    assert job.starts() == once_in(1, 2)
    assert not job.replays()


@only_on("local", why="replaces the executor's program, which has the faults of the network in it")
def test_a_partition_longer_than_the_time_out_costs_a_session(lab: Lab) -> None:
    """The executor that is not heard is ended and replaced before anything starts again: never two of one task."""
    job = Rehearsal(
        lab,
        FAULTY_NETWORK,
        calm=True,
        gate=False,
        head='heartbeat_interval = "100ms"\nheartbeat_timeout = "3s"',
    )
    before = job.wait_running(1)
    started = TaskReaches(WORKER, TaskMilestone.STARTED, session=1)
    with job.injector(PlannedFault(Partition(), executor("worker:0"), started)):
        until(lambda: len(job.pids(lab.status(job.job)["session"])) == 4 and "worker:0" in job.pids(2), "all run again")
        assert not process.is_alive(before["worker:0"])
        job.open_gate()
        status = lab.wait(job.job)
    assert status["state"] == "succeeded", status
    # On a machine that is suspended for seconds others are not heard either.
    assert status["session"] >= 2
    assert len(job.starts()) == len(set(job.starts()))
