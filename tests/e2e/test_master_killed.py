"""kill -9 of the application master at any moment: no program is lost, none starts twice, the record continues."""

from __future__ import annotations

import random

import pytest

from tests.e2e.lab import CEILING, Lab, until
from tests.e2e.recorded_job import Rehearsal, once_in
from tests.support.child_modules import JobModules, module_words
from tests.support.crashing_master import CrashPoint, CrashStage, read_injected
from tests.support.faults.plan import MASTER, AfterEvent, JobIs, Kill, PlannedFault, SessionOpens, program
from tony.linux import process
from tony.model.states import JobState

pytestmark = pytest.mark.e2e

#: Events that the reference job logs when no process is killed, but for a digest at its end.
EVENTS = 45
#: How often the AM of one job is killed; it may begin again so often.
KILLS = 4
DEADLY_STAGES = [stage for stage in CrashStage if stage is not CrashStage.FULL]


def build_crashing_master(*points: CrashPoint) -> tuple[str, ...]:
    """Return the AM that has these faults, as a module and its arguments."""
    return module_words("crashing_master", *map(str, points))


def rehearse(lab: Lab, *points: CrashPoint, name: str) -> None:
    """Run the reference job while its AM dies: it ends as if nothing had happened."""
    job = Rehearsal(lab, JobModules(master=build_crashing_master(*points)), name=name)
    status = lab.wait(job.job)
    injected = read_injected(job.folder)
    story = f"injected: {injected} of {points}\n{status}\nAMs logged:\n{job.said()[-6000:]}"
    assert (status["state"], status["exit_code"], status["session"]) == ("succeeded", 0, 2), story
    assert job.starts() == once_in(1, 2), story
    assert job.replays() == "", story
    assert injected, story
    assert status["attempt"] == 1 + len(injected), story


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_master_is_killed_in_the_midst_of_events(lab: Lab, seed: int) -> None:
    """Before, while and after they are logged, amid their effects: same end, same starts, a log that replays."""
    chance = random.Random(seed)
    seqs = chance.sample(range(1, EVENTS + 1), KILLS)
    rehearse(lab, *(CrashPoint(chance.choice(DEADLY_STAGES), seq) for seq in seqs), name=f"seed-{seed}")


@pytest.mark.long
@pytest.mark.parametrize("stage", DEADLY_STAGES)
def test_the_master_is_killed_in_the_midst_of_each_event(lab: Lab, stage: CrashStage) -> None:
    for seq in range(1, EVENTS + 1):
        rehearse(lab, CrashPoint(stage, seq), name=f"event-{seq}")


def test_the_master_is_killed_while_programs_run_restart_and_stop(lab: Lab) -> None:
    """From outside: programs live on with their pids, and the job restarts and stops under masters that die."""
    job = Rehearsal(lab, calm=True, gate=False, head="am_attempts = 10")
    before = job.wait_running(1)
    with job.injector(PlannedFault(Kill(), MASTER, SessionOpens(1))) as injector:
        assert injector.wait(CEILING)
    until(lambda: lab.status(job.job)["attempt"] == 2, "the next one continues")
    until(lambda: {name: task["pid"] for name, task in lab.tasks(job.job).items()} == before, "it knows what runs")
    assert all(process.is_alive(pid) for pid in before.values())
    faults = (
        PlannedFault(Kill(), program("worker:1"), AfterEvent(1)),
        PlannedFault(Kill(), MASTER, JobIs(JobState.RESTARTING)),
        PlannedFault(Kill(), MASTER, SessionOpens(2)),
    )
    with job.injector(*faults) as injector:
        assert injector.wait(CEILING)
    job.wait_running(2)
    with job.injector(PlannedFault(Kill(), MASTER, JobIs(JobState.STOPPING))):
        job.open_gate()
        status = lab.wait(job.job)
    assert (status["state"], status["session"]) == ("succeeded", 2), f"{status}\n{job.said()[-6000:]}"
    assert job.starts() == once_in(1, 2)
    assert job.replays() == ""


def test_the_disk_is_full_in_the_midst_of_an_event(lab: Lab) -> None:
    """Half a line in the log and no room for the rest: the job ends with that as its cause, programs and all."""
    job = Rehearsal(lab, JobModules(master=build_crashing_master(CrashPoint(CrashStage.FULL, 20))), gate=False)
    status = lab.wait(job.job)
    assert (status["state"], status["exit_code"]) == ("failed", 3), status
    assert "not enough disk space in " in status["failure"]["reason"]
    lab.wait_removed(job.job)
    assert len(read_injected(job.folder)) == 1
    assert job.replays() == ""
