"""A program or an executor is killed: the job fails, or begins again in the same containers; nothing is left."""

from __future__ import annotations

import os
import re
import signal

import pytest

from tests.e2e.lab import FAMILY, Lab, start_family, until

pytestmark = pytest.mark.e2e

#: In session 1 waits to be killed or stopped; later ones find what the first one has left in the working directory.
RESUMES = """
import os, pathlib, time
session, index = os.environ["SESSION_ID"], os.environ["TASK_INDEX"]
mark = pathlib.Path("checkpoint")
with open(f"{os.environ['OUT']}/{index}", "a") as file:
    print(session, mark.exists(), os.getcwd(), file=file)
mark.touch()
while session == "1" or not os.path.exists(os.environ["OUT"] + "/gate"):
    time.sleep(0.05)
"""


def test_a_failed_session_is_followed_by_another_in_place(lab: Lab) -> None:
    """A killed program stops the others and all begin again, in the same containers and folders."""
    job = lab.detach(lab.roles(RESUMES, "[roles.worker]\ninstances = 2\n", "max_restarts = 1"))
    lab.wait_wrote("0"), lab.wait_wrote("1")
    os.kill(lab.pid_of(job, "worker:1"), signal.SIGKILL)
    lab.wait_wrote("0", "\n2 "), lab.wait_wrote("1", "\n2 ")
    assert re.search(r"session 2: worker:1( on [0-9.]+)?: killed by SIGKILL", lab.tony("status", job).stdout)
    (lab.out / "gate").touch()
    status = lab.wait(job)
    assert (status["state"], status["session"]) == ("succeeded", 2)
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
