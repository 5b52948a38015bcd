"""Injected faults against real processes: what they do to a job, and what they do not."""

from __future__ import annotations

import pytest

from tests.e2e.lab import CEILING, Lab, until
from tests.e2e.recorded_job import FAULTY_EXECUTORS, Rehearsal, once_in
from tests.scenarios.conftest import only_on
from tony.linux import process

pytestmark = pytest.mark.e2e


@only_on("local", why="only local has a fork server: a NodeManager starts executors by itself")
def test_chance_picks_the_same_victim(lab: Lab) -> None:
    """And an executor's death with the fork server gone costs one restart, no more."""
    job = Rehearsal(lab, calm=True, gate=False)
    pids = job.wait_running(1)
    with job.injector("seed 3\nkill fork server\nkill executor any worker when the job is running + 200ms") as injector:
        assert injector.wait(CEILING)
        (_, injected) = injector.injected
    again = job.wait_running(2)
    job.open_gate()
    status = lab.wait(job.job)
    assert (status["state"], status["session"]) == ("succeeded", 2), status
    assert job.starts() == once_in(1, 2)
    assert not set(pids.values()) & set(again.values())
    assert injected.pid not in {task["executor_pid"] for task in status["tasks"]}


@only_on("local", why="only local has a supervisor: YARN itself starts the next AM")
def test_the_supervisor_is_killed(lab: Lab) -> None:
    """The master it had started goes on and ends the job."""
    job = Rehearsal(lab, gate=False)
    job.wait_running(2)
    with job.injector("kill supervisor; kill watchdog worker:0") as injector:
        assert injector.wait(CEILING)
    job.open_gate()
    status = lab.wait(job.job)
    assert (status["state"], status["session"], status["attempt"]) == ("succeeded", 2, 1), status
    assert job.starts() == once_in(1, 2)


def test_what_stands_still_for_a_while_or_is_slow_harms_nobody(lab: Lab) -> None:
    """Programs, executors and the master: shorter than the time-out it is no failure. Everybody lives on afterwards."""
    job = Rehearsal(lab, calm=True, gate=False, head='heartbeat_timeout = "60s"')
    pids = job.wait_running(1)
    plan = """
        stop master for 1s
        stop executor worker:0 for 1s
        stop worker:1 for 500ms
        slow worker:2 to 20% for 1s
        slow executor ps:0 to 20% for 1s
    """
    with job.injector(plan) as injector:
        assert until(lambda: len(injector.injected) == 5, "all faults are injected")
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
    job = Rehearsal(lab, FAULTY_EXECUTORS, head='heartbeat_interval = "100ms"\nheartbeat_timeout = "60s"')
    plan = """
        seed 11
        drop 0.2 of messages of worker:0
        drop 0.2 of commands of worker:1
        delay 0.3 of messages of worker:2 by 50ms
        duplicate 0.5 of messages of ps:0
        duplicate commands of worker:2
        partition worker:0 when worker:0 started for 1s
    """
    with job.injector(plan) as injector:
        status = lab.wait(job.job)
    assert (status["state"], status["session"]) == ("succeeded", 2), status
    assert len(injector.injected) == 6
    assert job.starts() == once_in(1, 2)
    assert not job.replays()


@only_on("local", why="replaces the executor's program, which has the faults of the network in it")
def test_a_partition_longer_than_the_time_out_costs_a_session(lab: Lab) -> None:
    """The executor that is not heard is ended and replaced before anything starts again: never two of one task."""
    job = Rehearsal(
        lab, FAULTY_EXECUTORS, calm=True, gate=False, head='heartbeat_interval = "100ms"\nheartbeat_timeout = "3s"'
    )
    before = job.wait_running(1)
    with job.injector("partition worker:0 when worker:0 started in session 1"):
        until(lambda: len(job.pids(lab.status(job.job)["session"])) == 4 and "worker:0" in job.pids(2), "all run again")
        assert not process.is_alive(before["worker:0"])
        job.open_gate()
        status = lab.wait(job.job)
    assert status["state"] == "succeeded", status
    # On a machine that stands still for seconds others are not heard either.
    assert status["session"] >= 2
    assert len(job.starts()) == len(set(job.starts()))


def test_the_masters_disk_is_full(lab: Lab) -> None:
    """It cannot write its log any more: the job ends with that as its cause, as soon as there is room to say so."""
    job = Rehearsal(lab, gate=False)
    job.wait_running(1)
    with job.injector("fill disk of master for 2s"):
        status = lab.wait(job.job)
        lab.wait_removed(job.job)
    assert (status["state"], status["exit_code"], status["failure"]["cause"]) == ("failed", 3, "storage"), status


def test_programs_and_executors_are_struck(lab: Lab) -> None:
    """A program is killed, then an executor; another one stands still for a while: two restarts, nothing more."""
    job = Rehearsal(lab, calm=True, gate=False, restarts=3)
    job.wait_running(1)
    plan = """
        kill worker:1
        stop executor worker:2 when worker:2 started in session 2 for 1s
        kill executor worker:0 when worker:0 started in session 2 + 500ms
    """
    with job.injector(plan) as injector:
        assert injector.wait(CEILING)
    job.wait_running(3)
    job.open_gate()
    status = lab.wait(job.job)
    assert (status["state"], status["session"]) == ("succeeded", 3), status
    assert len(injector.injected) == 3
    assert job.replays() == ""


def test_the_master_is_struck(lab: Lab) -> None:
    """It stands still, then it is killed while programs run: they keep their pids, and the next one ends the job."""
    job = Rehearsal(lab, gate=False)
    before = job.wait_running(2)
    with job.injector("stop master for 1s; kill master when session 2 opens + 1s") as injector:
        assert injector.wait(CEILING)
    until(lambda: lab.status(job.job)["attempt"] == 2, "the next one goes on")
    assert all(process.is_alive(pid) for pid in before.values())
    job.open_gate()
    status = lab.wait(job.job)
    assert (status["state"], status["session"]) == ("succeeded", 2), status
    assert job.starts() == once_in(1, 2)
    assert job.replays() == ""
