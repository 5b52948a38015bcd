"""One process of tony or of the user is killed: the job reports a clear reason, and no process is left."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.e2e.lab import Lab, command_of, start_family, until

pytestmark = pytest.mark.e2e


def test_the_watchdog_is_killed(lab: Lab) -> None:
    """The job continues, a new watchdog takes over, and an executor's death still ends all that it started."""
    job = start_family(lab)
    executor = lab.tasks(job)["worker:0"]["executor_pid"]
    program = lab.tasks(job)["worker:0"]["pid"]
    children = Path(f"/proc/{executor}/task/{executor}/children")
    watchdogs = [
        int(pid) for pid in children.read_text().split() if int(pid) != program and b"tony" in command_of(int(pid))
    ]
    assert watchdogs
    for pid in watchdogs:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not any(Path(f"/proc/{pid}/root").exists() for pid in watchdogs), "the watchdog is gone")
    until(
        lambda: [int(p) for p in children.read_text().split() if int(p) != program and b"tony" in command_of(int(p))],
        "there is a new watchdog",
    )
    os.kill(executor, signal.SIGKILL)
    assert lab.wait(job)["failure"]["cause"] == "lost"
    lab.wait_removed(job, 30)


def test_sigterm_to_the_am(lab: Lab) -> None:
    """A shutdown, for example, is a kill: programs are stopped, the record is finalized."""
    job = start_family(lab)
    os.kill(lab.status(job)["am"]["pid"], signal.SIGTERM)
    status = lab.wait(job)
    assert (status["state"], status["exit_code"]) == ("killed", 4)
    assert "SIGTERM" in status["failure"]["reason"]
    lab.wait_removed(job, 30)
