"""What the person at the terminal sees: output, states, Ctrl-C, errors first."""

from __future__ import annotations

import json
import os
import signal

import pytest

import tony
from tests.e2e.lab import Lab

pytestmark = pytest.mark.e2e


def test_ctrl_c_stops_the_job(lab: Lab) -> None:
    """The first one stops the job with its grace, exit code 4; nothing is left."""
    program = """
    import signal, sys, time
    signal.signal(signal.SIGTERM, lambda *_: (print("saving", flush=True), sys.exit(0)))
    print("up", flush=True)
    time.sleep(3600)
    """
    follower = lab.follow("submit", lab.job_file('command = "python x.py"\n', {"x.py": program}))
    job = lab.wait_submitted()
    lab.wait_output(job, "main:0", "up")
    os.killpg(follower.pid, signal.SIGINT)
    out, err = follower.communicate(timeout=60)
    assert follower.returncode == 4, out + err
    assert "saving" in out
    assert "Traceback" not in err
    assert lab.status(job)["state"] == "killed"
    lab.wait_removed(job)


def test_the_python_door(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Submit, follow logs, status, kill, attach from Python."""
    for name in ("HOME", "TONY_HOME", "PATH", "XDG_CONFIG_HOME", "TONY_SET_SCHEDULER__LOCAL__LEDGER"):
        monkeypatch.setenv(name, lab.env[name])
    spec = tony.JobSpec(
        name="from python",
        command="echo one; echo two; sleep 3600",
        stop_grace=1.0,
        roles={"worker": tony.Role(instances=2)},
    )
    job = tony.submit(spec)
    lines = job.logs("worker:0", follow=True)
    assert [next(lines), next(lines)] == ["one", "two"]
    assert job.status().state is tony.JobState.RUNNING
    again = tony.attach(job.id)
    again.kill()
    assert job.wait(timeout=60).exit_code == 4


def test_attach_brings_the_view_back(lab: Lab) -> None:
    """The follower leaves, the job continues; another one follows it to its end, with its exit code."""
    gate = lab.root / "gate"
    command = f"echo before; until test -e {gate}; do sleep 0.1; done; echo after; exit 7"
    follower = lab.follow("submit", lab.job_file(f'command = "{command}"\n'))
    job = lab.wait_submitted()
    lab.wait_output(job, "main:0", "before")
    os.killpg(follower.pid, signal.SIGTERM)
    _, err = follower.communicate(timeout=60)
    assert follower.returncode == 128 + signal.SIGTERM
    assert f"tony attach {job}" in err
    again = lab.follow("attach", job)
    assert again.stdout is not None
    assert f" Following job {job} (" in again.stdout.readline()
    assert any("before" in line for line in again.stdout)  # read until it follows the job
    gate.touch()
    out, err = again.communicate(timeout=60)
    assert again.returncode == 1, out + err
    assert "after" in out
    assert f"job {job}" in err
    ended = lab.tony("attach", job)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "exit code 7" in ended.stderr


def test_rerun_has_the_code_of_the_first_run(lab: Lab) -> None:
    """Although the source has changed since; with --restage it has the new one. Secrets are given again."""
    head = 'command = "python x.py"\nenv = { API_TOKEN = "a-secret-value" }\nparams = { lr = "1" }\n'
    file = lab.job_file(head, {"x.py": "import os\nprint('first', len(os.environ['API_TOKEN']))\n"})
    assert lab.submit(file).returncode == 0
    job = lab.only_job()
    lab.file("x.py", "print('second')\n")
    refused = lab.tony("rerun", job)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--env API_TOKEN" in refused.stderr
    again = lab.tony("rerun", job, "--env", "API_TOKEN", env={"API_TOKEN": "12345678"})
    assert again.returncode == 0, again.stderr
    assert "first 8" in again.stdout
    other = lab.tony("rerun", job, "--env", "API_TOKEN=12345678", "--restage", "--set", "name=other", "--json")
    assert other.returncode == 0, other.stderr
    assert " Submitted job " in other.stderr
    assert "second" in other.stderr
    assert json.loads(other.stdout)["name"] == "other"
    detached = lab.tony("rerun", job, "--env", "API_TOKEN=12345678", "--detach")
    assert lab.wait(detached.stdout.strip())["state"] == "succeeded"
