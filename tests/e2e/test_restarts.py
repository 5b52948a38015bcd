"""Restarts in place: the programs begin again, the containers stay."""

from __future__ import annotations

import pytest

from tests.e2e.lab import Lab

pytestmark = pytest.mark.e2e


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
