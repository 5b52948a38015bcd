"""One process of ours is stopped (SIGSTOP) and continues later: what lived continues, what was given up is ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.lab import Lab, frozen, kill, until
from tests.failure_modes.job_processes import Parts, children, parts_of

pytestmark = pytest.mark.e2e

#: Executors are given up after four seconds here, so that no test need wait for a minute.
QUICK = 'heartbeat_interval = "0.2s"\nheartbeat_timeout = "4s"\n'
#: Longer than that, and than whatever else counts seconds.
SUSPENSION_SECONDS = 5.0

#: Ends by itself once a file is there; says so if it is asked to end.
PROGRAM = """
import os, signal, sys, time
def asked(*_):
    print("asked to end", flush=True)
    sys.exit(3)
signal.signal(signal.SIGTERM, asked)
print("up", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
print("done", flush=True)
"""

#: Which process of a job.
WHO: dict[str, Callable[[Parts], int]] = {
    "master": lambda parts: parts.master,
    "fork server": lambda parts: fork_server(parts),
    "executor": lambda parts: parts.executors["worker:0"],
    "watchdog": lambda parts: parts.watchdogs["worker:0"],
    "program": lambda parts: parts.programs["worker:0"],
}


def fork_server(parts: Parts) -> int:
    """The child of a master that started its executors."""
    (found,) = [pid for pid in children(parts.master) if pid not in parts.executors.values()]
    return found


def submit(lab: Lab, head: str = QUICK) -> tuple[str, Parts]:
    """Two workers that run until `go` is called."""
    text = (
        f'command = "exec python program.py {gate(lab)}"\nstop_grace = "10s"\n{head}\n[roles.worker]\ninstances = 2\n'
    )
    job = lab.detach(lab.job_file(text, {"program.py": PROGRAM}))
    for task in ("worker:0", "worker:1"):
        lab.wait_output(job, task, "up")
    return job, parts_of(lab, job)


def gate(lab: Lab) -> Path:
    return lab.root / "gate"


def assert_succeeds(lab: Lab, job: str) -> None:
    """All processes continue where they were: one session, every line, nothing left."""
    gate(lab).touch()
    status = lab.wait(job)
    assert (status["state"], status["exit_code"], status["session"]) == ("succeeded", 0, 1)
    for task in ("worker:0", "worker:1"):
        assert lab.wait_output(job, task, "done") == "up\ndone\n"
    lab.wait_removed(job, 60)


def test_the_am_is_stopped(lab: Lab) -> None:
    """For longer than executors may be silent: they do not count as silent. Clients get an error that explains it."""
    job, parts = submit(lab)
    with frozen(parts.master):
        done = lab.tony("status", job)
        assert done.returncode == 3
        assert f"its process {parts.master} was stopped; resume it with: kill -CONT {parts.master}" in done.stderr
        time.sleep(SUSPENSION_SECONDS)
    assert_succeeds(lab, job)


def test_the_am_is_stopped_while_programs_exit(lab: Lab) -> None:
    job, parts = submit(lab)
    with frozen(parts.master):
        gate(lab).touch()
        logs = [lab.home / "jobs" / job / "logs" / f"worker-{number}.s1.t1.out" for number in (0, 1)]
        until(lambda: all("done" in log.read_text() for log in logs), "both are done")
        time.sleep(SUSPENSION_SECONDS)
    assert_succeeds(lab, job)


def test_a_watchdog_is_stopped(lab: Lab) -> None:
    """To the end of the job and beyond: the job does not wait for it, and it is killed."""
    job, parts = submit(lab)
    with frozen(parts.watchdogs["worker:0"]):
        assert_succeeds(lab, job)


def test_an_executor_is_killed_while_its_watchdog_is_stopped(lab: Lab) -> None:
    job, parts = submit(lab, "")
    with frozen(parts.watchdogs["worker:0"]):
        kill(parts.executors["worker:0"])
        status = lab.wait(job)
        assert (status["exit_code"], status["failure"]["cause"]) == (3, "lost")
        lab.wait_removed(job, 60)


def test_a_fork_server_is_stopped(lab: Lab) -> None:
    job, parts = submit(lab)
    with frozen(fork_server(parts)):
        gate(lab).touch()
        time.sleep(SUSPENSION_SECONDS)
    assert_succeeds(lab, job)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_follower_is_stopped(lab: Lab, unbuffered: str) -> None:
    """It loses no output, and exits with the job's exit code."""
    go = lab.root / "go"
    command = f"until test -e {go}; do sleep 0.05; done; seq 6000; touch {{params.gate}}"
    file = lab.job_file(f'command = "{command}"\n[params]\n{_param(lab)}')
    follower = lab.follow("submit", file, env={"PYTHONUNBUFFERED": unbuffered})
    job = lab.wait_submitted()
    lab.wait(job, "running")
    with frozen(follower.pid):
        go.touch()
        until(gate(lab).exists, "the program is done")
        assert lab.wait(job)["state"] == "succeeded"
        time.sleep(SUSPENSION_SECONDS)
    out, err = follower.communicate(timeout=60)
    assert (follower.returncode, err) == (0, "")
    assert [line.rpartition("| ")[2] for line in out.splitlines() if " | " in line] == [*map(str, range(1, 6001))]


def _param(lab: Lab) -> str:
    return f'gate = "{gate(lab)}"\n'


def test_a_stopped_program_is_continued_to_exit(lab: Lab) -> None:
    """It need not be killed."""
    job, parts = submit(lab)
    with frozen(parts.programs["worker:0"]):
        assert lab.tony("kill", job).returncode == 0
        assert lab.wait(job)["state"] == "killed"
        assert lab.tasks(job)["worker:0"]["exit_code"] == 3
    assert "asked to end" in lab.wait_output(job, "worker:0", "asked")
    lab.wait_removed(job, 60)


@pytest.mark.long
@pytest.mark.parametrize("who", WHO)
def test_a_whole_minute(lab: Lab, who: str) -> None:
    """With the usual settings: only an executor is given up, the others continue as if nothing had been."""
    job, parts = submit(lab, "")
    with frozen(WHO[who](parts)):
        time.sleep(60)
    if who != "executor":
        assert_succeeds(lab, job)
        return
    status = lab.wait(job)
    assert (status["exit_code"], status["failure"]["cause"], status["failure"]["task"]) == (3, "silent", "worker:0")
    lab.wait_removed(job, 60)


@pytest.mark.long
def test_a_fork_server_stays_stopped(lab: Lab) -> None:
    """The job ends after half a minute without it."""
    job, parts = submit(lab)
    with frozen(fork_server(parts)):
        assert_succeeds(lab, job)
