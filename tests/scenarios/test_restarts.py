"""A program or an executor is killed: the job fails, or begins again in the same containers; nothing is left."""

from __future__ import annotations

import os
import re
import signal
from typing import Any

import pytest

from tests.e2e.lab import FAMILY, Lab, kill, start_family, until

pytestmark = pytest.mark.e2e

#: In session 1 waits to be killed or stopped; later ones find what the first one has left in the working directory.
RESUMES = """
import os, pathlib, time
session, index = os.environ["SESSION_ID"], os.environ["TASK_INDEX"]
mark = pathlib.Path("checkpoint")
found = mark.exists()
mark.touch()
with open(f"{os.environ['OUT']}/{index}", "a") as file:
    print(session, found, os.getcwd(), file=file)
while session == "1" or not os.path.exists(os.environ["OUT"] + "/gate"):
    time.sleep(0.05)
"""
#: Without a control group the kernel says only that it has killed a process somewhere: that of another test counts.
KILLED = (
    r"worker:1( on \S+)?: (killed by SIGKILL|ran out of memory: the machine had none left, and the kernel most likely "
    "killed)"
)


def test_a_failed_session_is_followed_by_another_in_place(lab: Lab) -> None:
    """A killed program stops the others and all begin again, in the same containers and folders."""
    job = lab.detach(lab.roles(RESUMES, "[roles.worker]\ninstances = 2\n", "max_restarts = 1"))
    lab.wait_wrote("0", "\n"), lab.wait_wrote("1", "\n")
    os.kill(lab.pid_of(job, "worker:1"), signal.SIGKILL)
    lab.wait_wrote("0", "\n2 "), lab.wait_wrote("1", "\n2 ")
    status = lab.tony("status", job).stdout
    assert re.search(rf"session 2 after {KILLED}", status), status
    (lab.out / "gate").touch()
    ended = lab.wait(job)
    assert (ended["state"], ended["session"]) == ("succeeded", 2)
    for index in "01":
        (_, first, place), (_, second, same) = (line.split() for line in lab.wrote(index).splitlines())
        assert (first, second, place) == ("False", "True", same)
    assert len(lab.events_of(job, "granted")) == 2
    replayed = lab.tony("replay", job)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr


def test_an_executor_is_killed(lab: Lab) -> None:
    """Its program, grandchildren and daemons die with it; the failure names the executor's end."""
    job = start_family(lab)
    os.kill(lab.executor_of(job, "worker:1"), signal.SIGKILL)
    status = lab.wait(job)
    assert (status["state"], status["exit_code"]) == ("failed", 3)
    assert (status["failure"]["cause"], status["failure"]["task"]) == ("lost", "worker:1")
    assert "SIGKILL" in status["failure"]["reason"]
    assert lab.wait_ended(job) == "failed"
    lab.wait_removed(job, 30)


def test_an_executor_is_killed_and_the_session_restarts(lab: Lab) -> None:
    """With a restart left, only the dead container is replaced; the other executor stays."""
    job = start_family(lab, "max_restarts = 1")
    before = lab.tasks(job)
    os.kill(before["worker:1"]["executor_pid"], signal.SIGKILL)
    until(lambda: lab.status(job)["session"] == 2 and lab.status(job)["state"] == "running", "session 2 runs")
    after = until(lambda: all(t["pid"] for t in lab.tasks(job).values()) and lab.tasks(job), "both programs run")
    assert after["worker:0"]["executor_pid"] == before["worker:0"]["executor_pid"]
    assert after["worker:1"]["executor_pid"] != before["worker:1"]["executor_pid"]
    assert not {t["pid"] for t in before.values()} & {t["pid"] for t in after.values()}
    assert lab.tony("kill", job).returncode == 0
    assert lab.wait(job)["exit_code"] == 4


def test_nothing_survives_a_successful_end(lab: Lab) -> None:
    """A program that leaves daemons behind and succeeds: the job succeeds, the daemons are ended."""
    done = lab.submit(lab.roles(FAMILY.replace("time.sleep(3600)\n", "")))
    assert done.returncode == 0, done.stdout + done.stderr
    lab.wait_removed(lab.only_job(), 30)


#: Writes down each of its starts, and waits until the gate opens.
WAITS = """
import os, time
with open(f"{os.environ['OUT']}/{os.environ['TASK_INDEX']}", "a") as file:
    print(os.environ["SESSION_ID"], file=file)
while not os.path.exists(os.environ["OUT"] + "/gate"):
    time.sleep(0.05)
"""


def test_one_task_starts_again_alone(lab: Lab) -> None:
    """kill -9 of its program: in the same container. Of its executor: in another one. The others never notice."""
    head = 'max_restarts = 2\nbackoff = "10ms"'
    job = lab.detach(lab.roles(WAITS, '[roles.worker]\ninstances = 3\nrestart = "task"\n', head))

    def wait_starts(count: int) -> dict[str, Any]:
        """Wait until the last of this number of starts is known; return its part of the status."""

        def is_known() -> dict[str, Any] | None:
            starts, task = lab.wrote("1").split(), lab.tasks(job)["worker:1"]
            return task if len(starts) == task["try"] == count and task["pid"] else None

        found: dict[str, Any] = until(is_known, f"start {count} of worker:1")
        return found

    for index in "02":
        lab.wait_wrote(index)
    first = wait_starts(1)
    kill(first["pid"])
    second = wait_starts(2)
    assert (second["session"], second["try"], second["executor_pid"]) == (1, 2, first["executor_pid"])
    assert "restart 1 of 2" in second["note"]
    kill(second["executor_pid"])
    third = wait_starts(3)
    assert (third["session"], third["try"]) == (1, 3)
    assert third["executor_pid"] != second["executor_pid"]
    (lab.out / "gate").touch()
    status = lab.wait(job, "succeeded")
    assert (status["session"], status["restarts"]["charged"] + status["restarts"]["free"]) == (1, 2)
    assert [len(lab.wrote(index).splitlines()) for index in "012"] == [1, 3, 1]
    events = lab.tony("events", job).stdout
    assert re.search(KILLED, events), events
    assert "-> retry (restart 1 of 2)" in events
    replayed = lab.tony("replay", job)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
