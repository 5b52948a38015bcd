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


def test_a_restart_has_a_grace_of_its_own(lab: Lab) -> None:
    """Who does not mind SIGTERM holds up the next session for restart_grace only, not for stop_grace."""
    stubborn = """
    import os, signal, sys, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("here", flush=True)
    if os.environ["SESSION_ID"] == "1":
        while not os.path.exists(os.environ["GO"]) or os.environ["TASK_INDEX"] == "0":
            time.sleep(0.02)
        sys.exit(1)
    """
    go = lab.root / "go"
    text = (
        'command = "python x.py"\nmax_restarts = 1\nstop_grace = "1h"\nrestart_grace = "100ms"\n'
        f'[roles.worker]\ninstances = 2\n[env]\nGO = "{go}"\n'
    )
    job = lab.detach(lab.job_file(text, {"x.py": stubborn}))
    for index in range(2):
        lab.wait_output(job, f"worker:{index}", "here")
    go.touch()
    assert lab.wait(job, "succeeded", "failed")["session"] == 2
    _check_times(lab, job)


def _check_times(lab: Lab, job: str) -> None:
    """Of both sessions all lines are in order; the newest one is shown by default, and is what came since it began."""
    whole = lab.tony("logs", job, "--all-sessions", "--timestamps", "--grep", "^h.re$").stdout.splitlines()
    assert len(whole) == 4
    assert whole == sorted(whole)
    newest = lab.tony("logs", job, "--timestamps").stdout.splitlines()
    assert newest == whole[2:]
    stamp = newest[0].partition(" worker:")[0]
    assert lab.tony("logs", job, "--all-sessions", "--timestamps", "--since", stamp).stdout.splitlines() == newest
