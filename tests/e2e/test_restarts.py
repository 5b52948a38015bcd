"""Restarts in place: the programs begin again, the containers stay."""

from __future__ import annotations

import pytest

from tests.e2e.lab import Lab

pytestmark = pytest.mark.e2e


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
