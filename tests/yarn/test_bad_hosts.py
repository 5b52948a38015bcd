"""A host on which tasks fail again and again: the job continues elsewhere, and YARN is asked to give nothing there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.change_detection import CLUSTER
from tests.yarn.lab import YarnLab, until
from tests.yarn.test_attempts import kill_am, wait_attempt
from tony.mini.daemon_requests import send_request

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.on_change(*CLUSTER)]

#: The first host of worker:0 is bad: its program fails there, whenever it is started.
PROGRAM = """
import os, sys, time
out, task, session = os.environ["OUT"], os.environ["TASK_INDEX"], os.environ["SESSION_ID"]
host = os.environ["NODE"]
if task == "0" and session == "1":
    open(out + "/bad", "w").write(host)
open(f"{out}/{task}.{session}", "w").write(host)
if task == "0" and host == open(out + "/bad").read():
    sys.exit(3)
while not os.path.exists(out + "/gate"):
    time.sleep(0.05)
"""
HEAD = """
max_restarts = 2
backoff = "100ms"
[container_env]
NODE = "$NM_HOST"
"""


def excluded(lab: YarnLab, job: str) -> list[str]:
    """Where the latest attempt has told YARN to give nothing, as the ResourceManager has it."""
    answer = json.loads(send_request(lab.page("rm"), "GET", f"/ws/v1/cluster/apps/{job}/appattempts"))
    attempts: list[dict[str, Any]] = answer["appAttempts"]["appAttempt"]
    latest = max(attempts, key=lambda each: int(each["id"]))
    return sorted(filter(None, latest["blacklistedNodes"].replace(" ", "").split(",")))


def test_a_job_leaves_a_bad_host(lab: YarnLab) -> None:
    """The second failure there excludes it: all of the next session is elsewhere. So it is for the next master, too."""
    job = lab.detach(lab.roles(PROGRAM, "[roles.worker]\ninstances = 2\n", HEAD))
    lab.wait_wrote("0.3"), lab.wait_wrote("1.3")
    bad = lab.wrote("bad")
    assert [lab.wrote(f"0.{session}") for session in (1, 2)] == [bad] * 2
    assert bad not in (lab.wrote("0.3"), lab.wrote("1.3"))
    until(lambda: excluded(lab, job) == [bad], "YARN knows of it")
    kill_am(lab, job)
    status = wait_attempt(lab, job, 2)
    assert bad not in {each["host"] for each in status["tasks"]}
    until(lambda: excluded(lab, job) == [bad], "YARN has been told again")
    (lab.out / "gate").touch()
    status = lab.wait(job)
    assert (status["state"], status["session"], status["restarts"]["charged"]) == ("succeeded", 3, 2)
    told = [each["hosts"] for each in lab.events_of(job, "excluded")]
    assert told[0] == [bad]
    assert f"no new containers on {bad}" in lab.tony("events", job).stdout
