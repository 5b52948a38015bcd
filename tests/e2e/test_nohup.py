"""A follower that was started with signals ignored continues ignoring them."""

from __future__ import annotations

import os
import signal

import pytest

from tests.e2e.lab import CEILING, Lab

pytestmark = pytest.mark.e2e


def test_nohup(lab: Lab) -> None:
    """SIGHUP does not end the following; SIGTERM, which nohup leaves alone, does, and the job continues."""
    gate = lab.root / "gate"
    job_file = lab.job_file(f'command = "until test -e {gate}; do sleep 0.05; done; echo done"\n')
    lab.prefix = ("sh", "-c", 'trap "" HUP; exec "$@"', "sh")
    first = lab.follow("submit", job_file)
    one = lab.wait_submitted()
    lab.wait(one, "running")
    second = lab.follow("logs", "-f", one)
    third = lab.follow("submit", job_file)
    two = lab.wait_submitted(one)
    lab.wait(two, "running")
    for follower in (first, third):
        os.kill(follower.pid, signal.SIGHUP)
    os.kill(third.pid, signal.SIGTERM)
    assert third.wait(CEILING) == 143
    gate.touch()
    for follower in (first, second):
        out, err = follower.communicate(timeout=CEILING)
        assert follower.returncode == 0, err
        assert "done\n" in out
    assert lab.wait(two)["state"] == "succeeded"
