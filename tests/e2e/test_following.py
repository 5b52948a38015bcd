"""What the person at the terminal sees: output, states, Ctrl-C, errors first."""

from __future__ import annotations

import os
import pty
import signal
import subprocess

import pytest

import tony
from tests.e2e.lab import TONY, Lab, until

pytestmark = pytest.mark.e2e


def test_every_line_is_shown_with_its_task(lab: Lab) -> None:
    """Output of all tasks, prefixed; stderr too; also a last line without an end."""
    text = 'command = "echo out-$TASK_INDEX; echo err-$TASK_INDEX >&2; printf unfinished-$TASK_INDEX"\n'
    done = lab.submit(lab.job_file(text + "[roles.worker]\ninstances = 2\n"))
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed
    for index in range(2):
        for said in ("out", "err", "unfinished"):
            (line,) = [line for line in printed.splitlines() if f"{said}-{index}" in line]
            assert f"worker:{index}" in line
    assert "succeeded" in printed


def test_the_failure_is_shown_first_and_complete(lab: Lab) -> None:
    """Task, exit code, the last lines of its stderr, the path to the rest."""
    program = "import sys\nprint('working', flush=True)\nraise ValueError('the data is not there')\n"
    done = lab.submit(lab.job_file('command = "python x.py"\n[roles.worker]\n', {"x.py": program}))
    printed = done.stdout + done.stderr
    assert done.returncode == 1
    end = printed[printed.rindex("worker:0: exit code 1") :]
    assert "ValueError: the data is not there" in end
    assert "worker-0.s1.t1.err" in end
    assert "Traceback (most recent call last)" in end
    assert "src/tony" not in printed


def test_ctrl_c_stops_the_job(lab: Lab) -> None:
    """The first one stops the job with its grace, exit code 4; nothing is left."""
    program = """
    import signal, sys, time
    signal.signal(signal.SIGTERM, lambda *_: (print("saving", flush=True), sys.exit(0)))
    print("up", flush=True)
    time.sleep(3600)
    """
    follower = lab.follow("submit", lab.job_file('command = "python x.py"\n', {"x.py": program}))
    job = until(lab.jobs, "a job is there")[0]
    lab.wait_output(job, "main:0", "up")
    os.killpg(follower.pid, signal.SIGINT)
    out, err = follower.communicate(timeout=60)
    assert follower.returncode == 4, out + err
    assert "saving" in out
    assert "Traceback" not in err
    assert lab.status(job)["state"] == "killed"
    lab.wait_removed(job)


def test_a_second_ctrl_c_stops_at_once(lab: Lab) -> None:
    """The grace is long, the program deaf: the second one does not wait."""
    program = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(3600)"
    text = 'command = "python x.py"\nstop_grace = "10m"\n'
    follower = lab.follow("submit", lab.job_file(text, {"x.py": program}))
    job = until(lab.jobs, "a job is there")[0]
    lab.wait_output(job, "main:0", "deaf")
    os.killpg(follower.pid, signal.SIGINT)
    lab.wait(job, "stopping")
    os.killpg(follower.pid, signal.SIGINT)
    out, err = follower.communicate(timeout=60)
    assert follower.returncode == 4, out + err
    lab.wait_removed(job)


def test_on_a_terminal(lab: Lab) -> None:
    """With a terminal there is a live table, and the same exit code and output."""
    job = lab.job_file('command = "echo hello from the program"\n[roles.worker]\ninstances = 2\n')
    main, side = pty.openpty()
    process = subprocess.Popen(
        [TONY, "submit", str(job)],
        env={**lab.env, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"},
        stdin=side,
        stdout=side,
        stderr=side,
        start_new_session=True,
    )
    os.close(side)
    shown = b""
    while True:
        try:
            data = os.read(main, 65536)
        except OSError:
            break
        if not data:
            break
        shown += data
    os.close(main)
    assert process.wait(60) == 0, shown.decode(errors="replace")
    assert shown.count(b"hello from the program") >= 2
    assert b"Traceback" not in shown


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


def test_the_log_level_changes_while_the_job_runs(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for once, it reaches the application master and every executor."""
    for name in ("HOME", "TONY_HOME", "PATH", "XDG_CONFIG_HOME", "TONY_SET_SCHEDULER__LOCAL__LEDGER"):
        monkeypatch.setenv(name, lab.env[name])
    job = tony.submit({"command": "sleep 3600", "roles": {"worker": {"instances": 2}}, "stop_grace": "1s"})
    lab.wait(job.id, "running")
    folder = lab.home / "jobs" / job.id
    assert " DEBUG " not in (folder / "am.log").read_text()
    job.set_log_level("debug")
    job.kill(now=True)
    assert job.wait(timeout=60).exit_code == 4
    assert " DEBUG " in (folder / "am.log").read_text()
