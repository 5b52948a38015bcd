"""A real job that is told from the terminal what to do: where it stands, how much it logs, the next session."""

from __future__ import annotations

import json

import pytest

from tests.e2e.lab import Lab
from tony.core.events import REQUESTS
from tony.jobs.state_dir import get_user_name
from tony.model.state_directory import Home

pytestmark = pytest.mark.e2e

JOB = """
[roles.worker]
command = "exec python hangs.py"
instances = 2
[roles.keeper]
command = "echo up; exec sleep 1000"
kind = "sidecar"
"""
#: Hangs until it is restarted.
HANGS = """
import os, time

def waits_for_a_peer():
    print("up", flush=True)
    time.sleep(1000)

if os.environ["SESSION_ID"] == "1":
    waits_for_a_peer()
print("done", flush=True)
"""


def test_a_job_that_hangs(lab: Lab) -> None:
    """Its stacks say where, a restart helps and does not count, and the events say who requested all that."""
    job = lab.detach(lab.job_file(JOB, {"hangs.py": HANGS}))
    for task in ("worker:0", "worker:1", "keeper:0"):
        lab.wait_output(job, task, "up")

    shown = lab.tony("stacks", job)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.count("waits_for_a_peer (") == 2
    assert "keeper:0: from the kernel; saved as keeper-0.s1.t1.stacks among the logs" in shown.stdout
    told = [json.loads(line) for line in lab.tony("stacks", job, "worker:1", "--json").stdout.splitlines()]
    assert [each["task"] for each in told] == ["worker:1"]
    assert (Home(lab.home).job(job).logs / told[0]["name"]).read_text().count("waits_for_a_peer (") == 2
    assert lab.tony("log-level", job, "debug").returncode == 0

    done = lab.tony("restart", job)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Restarting job {job} ")
    report = lab.wait(job)
    assert (report["state"], report["session"]) == ("succeeded", 2)
    assert (report["restarts"]["charged"], report["restarts"]["free"]) == (0, 1)
    lab.wait_output(job, "worker:1", "done")
    entries = lab.events(job)
    asked = [each for each in entries if each["event"] in [kind.kind for kind in REQUESTS]]
    assert {each["data"]["actor"]["name"] for each in asked} == {get_user_name()}
    assert sorted(each["data"]["task"] for each in asked[:4]) == ["keeper:0", "worker:0", "worker:1", "worker:1"]
    assert [each["event"] for each in asked[4:]] == ["log-level-requested", "restart-requested"]
    assert "waits_for_a_peer (" in lab.tony("stacks", job).stdout, "they were saved"
    for line in (("restart", job), ("log-level", job, "info")):
        refused = lab.tony(*line)
        assert (refused.returncode, f"{job} (" in refused.stderr and " succeeded " in refused.stderr) == (2, True)
