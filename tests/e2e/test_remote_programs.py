"""`tony exec` and `tony shell`: a program next to a task's own, as if it ran here."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.e2e.lab import CEILING, TONY, Lab, read_files, until
from tests.e2e.typed_terminal import type_at
from tony.linux.process import command_of, with_marker

pytestmark = pytest.mark.e2e

PROGRAM = 'command = "echo up; sleep 3600"\n[roles.worker]\ninstances = 2\nmemory = "64m"\nenv = { OWN = "variable" }\n'


def started(lab: Lab, text: str = PROGRAM) -> str:
    job = lab.detach(lab.job_file(text))
    lab.wait_output(job, "worker:1", "up")
    return job


def run(lab: Lab, job: str, *words: str, text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    argv = [TONY, "exec", job, "worker:1", "--", *words]
    return subprocess.run(
        argv, input=text, env=lab.env, cwd=lab.root, capture_output=True, timeout=CEILING, check=False
    )


def is_running(command: str, job: str) -> bool:
    return any(command_of(pid) == command for pid in with_marker(f"TONY_TASK={job}/"))


def test_exec(lab: Lab) -> None:
    """Pipes, exit codes, the task's environment, Ctrl-C, the job's history; and nothing is left of it."""
    job = started(lab)
    data = os.urandom(3_000_001)
    done = run(lab, job, "bash", "-c", "cat; echo problem >&2; exit 7", text=data)
    assert (done.returncode, done.stdout == data, done.stderr) == (7, True, b"problem\n")
    done = run(lab, job, "bash", "-c", "echo $OWN $JOB_NAME $TASK_INDEX $SESSION_ID; pwd; kill -9 $$")
    assert done.returncode == 128 + signal.SIGKILL
    assert done.stdout.startswith(b"variable worker 1 1\n")
    assert f"/{job}/".encode() in done.stdout
    head = subprocess.run(
        ["bash", "-c", f"{TONY} exec {job} worker:1 -- yes | head -2; echo ${{PIPESTATUS[0]}}"],
        env=lab.env,
        capture_output=True,
        text=True,
        timeout=CEILING,
        check=False,
    )
    assert (head.stdout, head.stderr) == ("y\ny\n141\n", "")

    sleeper = lab.follow("exec", job, "worker:1", "--", "bash", "-c", "echo up; sleep 3601")
    assert sleeper.stdout is not None
    assert sleeper.stdout.readline() == "up\n"
    sleeper.send_signal(signal.SIGINT)
    assert sleeper.communicate(timeout=CEILING) == ("", "")
    assert sleeper.returncode == 130
    script = "trap 'echo ignored' INT; trap '' HUP TERM; setsid sleep 3602 & echo up; while true; do wait; done"
    stubborn = lab.follow("exec", job, "worker:1", "--", "bash", "-c", script)
    assert stubborn.stdout is not None
    for line in ("up", "ignored"):
        assert stubborn.stdout.readline() == f"{line}\n"
        stubborn.send_signal(signal.SIGINT)
    assert stubborn.wait(CEILING) == 130
    until(
        lambda: not {*with_marker("TONY_REMOTE_PROGRAM=")} & {*with_marker(f"TONY_TASK={job}/")},
        "its programs have ended",
    )

    events = lab.events_of(job, "remote-program-requested")
    assert [(event["task"], event["program"], event["argument_count"]) for event in events[:2]] == [
        ("worker:1", "bash", 2)
    ] * 2
    assert "requested bash with 2 arguments in worker:1" in lab.tony("events", job).stdout
    folder = Path(lab.status(job)["folder"])
    for path, content in read_files(folder):
        assert b"setsid" not in content, path
    last = lab.follow("exec", job, "worker:1", "--", "bash", "-c", "echo up; sleep 3603")
    assert last.stdout is not None
    assert last.stdout.readline() == "up\n"
    lab.tony("kill", job)
    assert last.communicate(timeout=CEILING)[1] == "tony: the program was ended: worker:1 is stopping\n"
    assert last.returncode > 128
    lab.wait(job)
    done = run(lab, job, "ls")
    assert done.returncode == 2
    assert b"no program can be run in its tasks: job" in done.stderr


def test_shell(lab: Lab) -> None:
    """A terminal of the same size, also after a change; the own one is as before at the end."""
    job = started(lab)
    with type_at([TONY, "shell", job, "worker:0"], lab.env, lab.root) as terminal:
        terminal.resize(31, 97)
        until(lambda: not terminal.has_echo(), "the terminal is raw")
        terminal.type(b"stty size; echo $TASK_INDEX-$OWN; tty | cut -c 1-8\r")
        terminal.wait_shown("31 97\r\n0-variable\r\n/dev/pts\r\n")
        terminal.resize(41, 87)
        terminal.type(b"until test \"$(stty size)\" = '41 87'; do sleep 0.01; done; echo re''sized\r")
        terminal.wait_shown("resized\r\n")
        terminal.type(b"sleep 3601\r")
        until(lambda: is_running("sleep 3601", job), "bash has started it")
        terminal.type(b"\x03")
        terminal.type(b"exit 5\r")
        assert terminal.wait_exit() == 5
        assert terminal.has_echo()
    assert lab.tony("shell", job, "worker:0").returncode == 2
    assert lab.status(job)["state"] == "running"
    with type_at([TONY, "shell", job], lab.env, lab.root) as terminal:
        until(lambda: not terminal.has_echo(), "the terminal is raw")
        terminal.type(b"echo $TASK_INDEX-is-it\r")
        terminal.wait_shown("0-is-it\r\n")
        lab.tony("kill", job)
        assert terminal.wait_exit() > 0
        assert terminal.has_echo()
        assert "the program was ended: worker:0 is stopping" in terminal.seen
