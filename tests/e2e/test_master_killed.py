"""kill -9 of the application master at any moment: no program is lost, none starts twice, the record continues."""

from __future__ import annotations

import random

import pytest

from tests.e2e.lab import CEILING, Lab, until
from tests.e2e.recorded_job import Rehearsal, once_in
from tests.support.child_modules import module_setting
from tests.support.faults.crash_points import read_injected
from tests.support.faults.plan import EventStage, FaultPlan, FaultTarget, Kill, PlannedFault, ProcessKind, Within
from tests.support.faults.plan_parser import write_plan
from tony.linux import process

pytestmark = pytest.mark.e2e

#: Events that the reference job logs when no process is killed, but for a digest at its end.
EVENTS = 45
#: How often the master of one job is killed; it may begin again so often.
KILLS = 4


def am_fault_setting(plan: str) -> str:
    """Return the setting that injects faults inside the AM."""
    return module_setting("master", "crashing_master", plan)


def moments(seed: int, kills: int = KILLS, events: int = EVENTS) -> FaultPlan:
    """Some moments in the midst of events, anywhere in a job."""
    chance = random.Random(seed)
    seqs = sorted(chance.sample(range(1, events + 1), kills))
    return FaultPlan(
        faults=tuple(
            PlannedFault(
                harm=Kill(),
                target=FaultTarget(part=ProcessKind.MASTER),
                moment=Within(seq=seq, stage=chance.choice(list(EventStage))),
            )
            for seq in seqs
        )
    )


def rehearse(lab: Lab, plan: str, name: str) -> None:
    """The reference job under a plan: it ends as if nothing had happened."""
    job = Rehearsal(lab, am_fault_setting(plan), name=name)
    status = lab.wait(job.job)
    story = f"plan:\n{plan}\ninjected: {read_injected(job.folder)}\nmasters said:\n{job.said()[-6000:]}"
    ended = (status["state"], status["exit_code"], status["session"])
    assert ended == ("succeeded", 0, 2), f"{status}\n{story}"
    assert job.starts() == once_in(1, 2), story
    assert job.replays() == "", story
    assert read_injected(job.folder), story
    assert status["attempt"] == 1 + len(read_injected(job.folder)), story


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_master_is_killed_in_the_midst_of_events(lab: Lab, seed: int) -> None:
    """Before, while and after they are logged, amid their effects: same end, same starts, a log that replays."""
    rehearse(lab, write_plan(moments(seed)).replace("\n", "; "), f"seed-{seed}")


@pytest.mark.long
@pytest.mark.parametrize("stage", list(EventStage))
def test_the_master_is_killed_in_the_midst_of_each_event(lab: Lab, stage: EventStage) -> None:
    for seq in range(1, EVENTS + 1):
        rehearse(lab, f"kill master {stage.value.format(seq)}", f"event-{seq}")


def test_the_master_is_killed_while_programs_run_restart_and_stop(lab: Lab) -> None:
    """From outside: programs live on with their pids, and the job restarts and stops under masters that die."""
    job = Rehearsal(lab, calm=True, gate=False, head="am_attempts = 10")
    before = job.wait_running(1)
    with job.injector("kill master when session 1 opens") as injector:
        assert injector.wait(CEILING)
    until(lambda: lab.status(job.job)["attempt"] == 2, "the next one continues")
    until(lambda: {name: task["pid"] for name, task in lab.tasks(job.job).items()} == before, "it knows what runs")
    assert all(process.is_alive(pid) for pid in before.values())
    plan = """
        kill worker:1 after event 1
        kill master when the job is restarting
        kill master when session 2 opens
    """
    with job.injector(plan) as injector:
        assert injector.wait(CEILING)
    job.wait_running(2)
    with job.injector("kill master when the job is stopping"):
        job.open_gate()
        status = lab.wait(job.job)
    assert (status["state"], status["session"]) == ("succeeded", 2), f"{status}\n{job.said()[-6000:]}"
    assert job.starts() == once_in(1, 2)
    assert job.replays() == ""


def test_the_disk_is_full_in_the_midst_of_an_event(lab: Lab) -> None:
    """Half a line in the log and no room for the rest: the job ends with that as its cause, programs and all."""
    job = Rehearsal(lab, am_fault_setting("fill disk of master while event 20 is logged"), gate=False)
    status = lab.wait(job.job)
    assert (status["state"], status["exit_code"]) == ("failed", 3), status
    assert "not enough disk space in " in status["failure"]["reason"]
    lab.wait_removed(job.job)
    assert len(read_injected(job.folder)) == 1
    assert job.replays() == ""


def test_a_plan_that_cannot_be_carried_out_is_refused(lab: Lab) -> None:
    """Before anything runs, with what the plan's words should be."""
    refused = lab.submit(lab.job_file('command = "true"\n'), "--set", am_fault_setting("kill master after lunch"))
    assert refused.returncode != 0
    assert "'after lunch' is not a moment" in refused.stderr
