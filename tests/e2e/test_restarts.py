"""Restarts in place: the programs begin again, the containers stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.lab import Lab

pytestmark = pytest.mark.e2e

#: Fails in session 1 in worker:1; a later session goes on from what the first one wrote.
RESUMES = """
import os, pathlib, sys, time
session, index = int(os.environ["SESSION_ID"]), int(os.environ["TASK_INDEX"])
mark = pathlib.Path(f"checkpoint-{index}")
print("session", session, "resumes" if mark.exists() else "begins", flush=True)
mark.write_text(str(session))
if session == 1:
    if index == 1:
        time.sleep(0.3)
        sys.exit(7)
    time.sleep(3600)
"""


def test_a_failed_session_is_followed_by_another(lab: Lab) -> None:
    """Exit 7 in one worker stops the others and starts all again, in the same containers and folders."""
    text = 'command = "python x.py"\nmax_restarts = 1\nstop_grace = "1s"\n[roles.worker]\ninstances = 3\n'
    done = lab.submit(lab.job_file(text, {"x.py": RESUMES}))
    assert done.returncode == 0, done.stdout + done.stderr
    job = lab.only_job()
    status = lab.status(job)
    assert (status["session"], status["state"]) == (2, "succeeded")
    logs = Path(status["folder"]) / "logs"
    for index in range(3):
        assert (logs / f"worker-{index}.s1.t1.out").read_text() == "session 1 begins\n"
        assert (logs / f"worker-{index}.s2.t1.out").read_text() == "session 2 resumes\n"
    granted = lab.tony("events", job, "--json").stdout.count('"granted"')
    assert granted == 3
    replayed = lab.tony("replay", job)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr


def test_the_budget_ends(lab: Lab) -> None:
    """After max_restarts the failure stands: exit 1, and the last session's failure is told."""
    text = 'command = "exit 9"\nmax_restarts = 2\nbackoff = "10ms"\n'
    done = lab.submit(lab.job_file(text))
    status = lab.status(lab.only_job())
    assert (done.returncode, status["session"]) == (1, 3)
    assert (status["failure"]["exit_code"], status["failure"]["session"]) == (9, 3)
    assert "exit code 9" in done.stdout + done.stderr


def test_stop_on_failure_is_final(lab: Lab) -> None:
    """Its failure ends the job although restarts are left."""
    text = 'command = "exit 1"\nmax_restarts = 5\n[roles.worker]\nstop_on_failure = true\n'
    assert lab.submit(lab.job_file(text)).returncode == 1
    assert lab.status(lab.only_job())["session"] == 1


def test_time_outs_end_jobs(lab: Lab) -> None:
    """Execution, start-up, group and job time-outs are the program's failures: exit 1, with their own causes."""
    cases = {
        "execution-timeout": 'command = "sleep 3600"\nexecution_timeout = "1s"\n',
        "startup-timeout": 'command = "sleep 3600"\nstartup_timeout = "1s"\n',
        "job-timeout": 'command = "sleep 3600"\njob_timeout = "1s"\n',
        "group-timeout": (
            '[roles.chief]\ncommand = "true"\n[roles.evaluator]\ncommand = "sleep 3600"\n'
            'timeout_after = { group = "g", limit = "1s" }\n[groups]\ng = ["chief"]\n'
        ),
    }
    for cause, text in cases.items():
        done = lab.submit(lab.job_file(text))
        assert done.returncode == 1, done.stdout + done.stderr
        assert lab.status(lab.jobs()[-1])["failure"]["cause"] == cause
        assert cause.replace("-", "_").replace("group_timeout", "timeout_after") in done.stdout + done.stderr
