"""A gang on a cluster without room for all of it: it starts with fewer tasks, and has all when there is room again."""

from __future__ import annotations

import json

import pytest

from tests.e2e.lab import kill
from tests.yarn.lab import YarnLab

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.on_change("hadoop", "schedulers", "mini")]

#: Two of the three nodes.
HOG = """
command = "touch $OUT/$TASK_INDEX; sleep 3600"
[roles.hog]
instances = 2
memory = "4g"
"""
#: The third node has room for three of these beside two masters.
JOB = """
command = "echo $TASK_INDEX of $TASK_NUM >> $OUT/s$SESSION_ID; test $SESSION_ID = 2 || sleep 3600"
max_restarts = 1
gang_wait = "3s"
shrink_after = "1m"
[roles.worker]
instances = { min = 2, max = 5 }
memory = "1g"
"""


def test_as_many_as_there_is_room_for(lab: YarnLab) -> None:
    """Three of five while another job has two nodes; when that has ended and a program is killed, five of five."""
    hog = lab.detach(lab.job(HOG, name="hog.toml"))
    for started in "01":
        lab.wait_wrote(started)
    job = lab.detach(lab.job(JOB))
    for index in range(3):
        lab.wait_wrote("s1", f"{index} of 3")
    status = lab.wait(job, "running")
    (size,) = status["sizes"]
    assert (size["tasks"], size["least"], size["most"], len(size["left_out"])) == (3, 2, 5, 2)
    notes = {task["note"] for task in status["tasks"] if task["task"] in size["left_out"]}
    assert notes == {"left out of session 1: no container within 3 s (gang_wait)"}
    assert lab.tony("kill", hog, "--now").returncode == 0
    lab.wait(hog)
    kill(lab.pid_of(job, next(task["task"] for task in status["tasks"] if task["task"] not in size["left_out"])))
    ended = lab.wait(job)
    assert (ended["state"], ended["session"]) == ("succeeded", 2)
    assert sorted(lab.wrote("s1").splitlines()) == [f"{index} of 3" for index in range(3)]
    assert sorted(lab.wrote("s2").splitlines()) == [f"{index} of 5" for index in range(5)]
    sessions = json.loads(lab.tony("history", job, "--json").stdout)["sessions"]
    assert [each["tasks"] for each in sessions] == [{"worker": 3}, {"worker": 5}]
