"""The application master is killed, alone or with a part of the cluster: another attempt continues with what runs."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.change_detection import CLUSTER, RUNTIME
from tests.yarn.lab import CEILING, YarnLab, until, user
from tony.history import event_log
from tony.history.job_record import record_of
from tony.history.replay import replay
from tony.model.state_directory import Home

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

#: Says which session and process it is, and continues until the gate opens.
WAITS = """
import os, time
out = os.environ["OUT"]
open(f"{out}/{os.environ['TASK_INDEX']}.{os.environ['SESSION_ID']}.{os.getpid()}", "w")
print("program", os.environ["TASK_INDEX"], "runs", flush=True)
while not os.path.exists(out + "/gate"):
    time.sleep(0.05)
print("program", os.environ["TASK_INDEX"], "is done", flush=True)
"""


def started(lab: YarnLab) -> set[str]:
    """Every start of a program: task, session, pid."""
    return {path.name for path in lab.out.iterdir() if path.name != "gate"}


def begin(lab: YarnLab, *arguments: str, tasks: int = 4, head: str = "") -> tuple[str, set[str]]:
    """A job whose programs all run, and these."""
    job = lab.detach(lab.roles(WAITS, f"[roles.worker]\ninstances = {tasks}\n", head), *arguments)
    until(lambda: len(started(lab)) == tasks, "all programs run")
    lab.wait(job, "running")
    until(lambda: all(each["state"] == "running" for each in lab.tasks(job).values()), "that is known")
    return job, started(lab)


def kill_am(lab: YarnLab, job: str) -> None:
    os.kill(lab.master_of(job), signal.SIGKILL)


def wait_attempt(lab: YarnLab, job: str, attempt: int) -> dict[str, Any]:
    """Waits until an attempt has the job and sees all of it."""

    def there() -> bool:
        status = lab.status(job)
        seen = all(each["state"] == "running" for each in status["tasks"])
        return status["attempt"] == attempt and status["state"] == "running" and seen

    until(there, f"attempt {attempt} continues")
    return lab.status(job)


def finish(lab: YarnLab, job: str) -> dict[str, Any]:
    """Lets the programs end, and the job with them."""
    (lab.out / "gate").touch()
    return lab.wait(job)


@contextlib.contextmanager
def away(lab: YarnLab, daemon: str) -> Iterator[None]:
    """A daemon is killed, and comes back."""
    lab.cluster.kill(daemon)
    try:
        yield
    finally:
        lab.cluster.restart(daemon)


def test_the_master_is_killed(lab: YarnLab) -> None:
    """No program notices; those who follow continue; one log tells it all, and replays."""
    job, programs = begin(lab)
    follower = lab.follow("logs", job, "--follow")
    executors = {task: each["executor_pid"] for task, each in lab.tasks(job).items()}
    kill_am(lab, job)
    status = wait_attempt(lab, job, 2)
    assert {each["task"]: each["executor_pid"] for each in status["tasks"]} == executors
    assert lab.elsewhere("there").status(job)["attempt"] == 2
    status = finish(lab, job)
    assert (status["state"], status["session"], started(lab)) == ("succeeded", 1, programs)
    said, err = follower.communicate(timeout=CEILING)
    assert (follower.returncode, said.count("is done")) == (0, 4), err
    told = lab.events(job)
    assert [each["seq"] for each in told] == list(range(1, len(told) + 1))
    assert [each["attempt"] for each in told] == sorted(each["attempt"] for each in told)
    home = Home(lab.home)
    segments = event_log.segments(home.job(job).path)
    result = replay(job, record_of(home, job).spec, event_log.read(segments))
    assert (len(segments), result.app.state.final is not None) == (2, True)
    assert lab.wait_application(job)["finalStatus"] == "SUCCEEDED"
    there = lab.listed(f"/user/{user()}/.tony/jobs/{job}")
    assert {"events.1.closed.jsonl", "events.2.jsonl", "summary.json"} <= there.keys()


@pytest.mark.on_change(*CLUSTER, *RUNTIME)
def test_killed_together_with_the_resource_manager(lab: YarnLab) -> None:
    """Both come back, and each node tells the new one what it runs."""
    job, programs = begin(lab, tasks=2)
    with away(lab, "rm"):
        kill_am(lab, job)
    wait_attempt(lab, job, 2)
    status = finish(lab, job)
    assert (status["state"], status["session"], started(lab)) == ("succeeded", 1, programs)


@pytest.mark.on_change(*CLUSTER, *RUNTIME)
def test_killed_while_hdfs_takes_nothing(lab: YarnLab) -> None:
    """The next one waits for the log of the first; programs run on all the while."""
    job, programs = begin(lab, tasks=2)
    with away(lab, "dn1"):
        kill_am(lab, job)
        until(lambda: lab.application(job)["state"] != "RUNNING", "YARN has noticed")
    wait_attempt_of_any_number(lab, job)
    status = finish(lab, job)
    assert (status["state"], status["session"], started(lab)) == ("succeeded", 1, programs)


def wait_attempt_of_any_number(lab: YarnLab, job: str) -> None:
    """One whose files a node cannot fetch meanwhile is no attempt of ours: the next one may be the third."""
    until(lambda: lab.status(job)["attempt"] > 1 and lab.status(job)["state"] == "running", "another attempt continues")


@pytest.mark.on_change(*CLUSTER, *RUNTIME)
def test_a_kill_in_the_gap_is_kept(lab: YarnLab) -> None:
    """No AM answers, and the client exits: the next attempt executes the saved kill request."""
    job, programs = begin(lab, tasks=2)
    nodes = [f"nm{number + 1}" for number in range(lab.cluster.state.options.nodes)]
    for node in nodes:  # so that none comes
        lab.cluster.kill(node, signal.SIGSTOP)
    try:
        kill_am(lab, job)
        killer = lab.follow("kill", job)
        record = f"/user/{user()}/.tony/jobs/{job}"
        until(lambda: "kill.json" in lab.listed(record), "it is kept")
        killer.kill()
        killer.communicate()
    finally:
        for node in nodes:
            lab.cluster.kill(node, signal.SIGCONT)
    status = lab.wait(job)
    assert (status["state"], status["exit_code"]) == ("killed", 4)
    assert user() in status["failure"]["reason"]
    lab.wait_removed(job)
    assert (started(lab), "kill.json" in lab.listed(record)) == (programs, False)
