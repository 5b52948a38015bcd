"""A part of the cluster dies while a job runs."""

from __future__ import annotations

import os

import pytest

from tests.change_detection import CLUSTER, RUNTIME
from tests.yarn.lab import YarnLab, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.on_change(*CLUSTER, *RUNTIME)]

#: Continues until it is asked to end, or its second session begins.
RESUMES = """
import os, time
session, task = os.environ["SESSION_ID"], os.environ["TASK_INDEX"]
open(f"{os.environ['OUT']}/{task}.{session}", "w")
while session == "1" and not os.path.exists(os.environ["OUT"] + "/gate"):
    time.sleep(0.05)
"""


def test_the_resource_manager_is_killed(lab: YarnLab) -> None:
    """The job continues, can be asked meanwhile, and its end reaches the new ResourceManager."""
    job = lab.detach(lab.roles(RESUMES, "[roles.worker]\ninstances = 2\n"))
    lab.wait_wrote("0.1"), lab.wait_wrote("1.1")
    before = lab.tasks(job)
    lab.cluster.kill("rm")
    there = lab.elsewhere("there")  # which has never seen the job: its record says where its master listens
    assert there.status(job)["state"] == "running"
    done = there.tony("logs", job, "worker:0")
    assert done.returncode == 0, done.stderr
    assert "missing" not in done.stderr, done.stderr
    executors = [before[task]["executor_pid"] for task in ("worker:0", "worker:1")]
    lab.cluster.restart("rm")
    assert all(os.path.exists(f"/proc/{pid}") for pid in executors)
    assert {task: each["pid"] for task, each in lab.tasks(job).items()} == {t: e["pid"] for t, e in before.items()}
    (lab.out / "gate").touch()
    status = lab.wait(job)
    assert (status["state"], status["session"]) == ("succeeded", 1)
    assert lab.wait_application(job)["finalStatus"] == "SUCCEEDED"
    assert len(lab.events_of(job, "granted")) == 2


def test_a_job_that_ended_without_a_resource_manager_is_unregistered_later(lab: YarnLab) -> None:
    """All programs end while there is none: the follower prints the end all the same, and YARN gets it as soon as it
    runs."""
    follower = lab.follow("submit", lab.roles(RESUMES), "--scheduler", "yarn")
    lab.wait_wrote("0.1")
    job = lab.only_job()
    lab.wait(job, "running")
    lab.cluster.kill("rm")
    (lab.out / "gate").touch()
    try:
        until(lambda: follower.poll() is not None, "the follower has heard of the end")
    finally:
        lab.cluster.restart("rm")
    out, err = follower.communicate()
    assert follower.returncode == 0, out + err
    assert lab.wait_application(job)["finalStatus"] == "SUCCEEDED"


def test_a_node_manager_is_killed(lab: YarnLab) -> None:
    """The loss of its node does not count; the session restarts elsewhere, and no process of the old one is left."""
    text = '[roles.worker]\ninstances = 2\nmemory = "1800m"\n'  # no two beside the master
    job = lab.detach(lab.roles(RESUMES, text))
    lab.wait_wrote("0.1"), lab.wait_wrote("1.1")
    hosts = {task: lab.node_of(each["host"]) for task, each in lab.tasks(job).items()}
    master = next(part for part in lab.folders(job)[min(lab.folders(job))].parts if part.startswith("nm"))
    away = [node for node in hosts.values() if node != master]
    old = lab.tasks(job)
    lab.cluster.kill(away[0])
    try:
        status = lab.wait(job)
    finally:
        lab.cluster.restart(away[0])
    assert (status["state"], status["session"]) == ("succeeded", 2)
    lost = [each for each in lab.events_of(job, "container-ended") if each["blameless"]]
    assert len(lost) == sum(node == away[0] for node in hosts.values())
    assert "node was lost" in lost[0]["cause"]
    lab.wait_removed(job)
    assert not [each["pid"] for each in old.values() if os.path.exists(f"/proc/{each['pid']}")]
