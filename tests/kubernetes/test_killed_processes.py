"""A program, an executor or an application master is killed in its pod."""

from __future__ import annotations

import os
import signal

import pytest

from tests.e2e.lab import until
from tests.kubernetes.lab import KubernetesLab

pytestmark = [pytest.mark.on_change("kube", "mini", "schedulers"), pytest.mark.slow, pytest.mark.e2e]

#: Ends with its gate: a file in `$OUT`.
GATE = """
import os, time
open(f"{os.environ['OUT']}/up-{os.environ['SESSION_ID']}-{os.environ['TASK_INDEX']}", "w").close()
while not os.path.exists(f"{os.environ['OUT']}/gate"):
    time.sleep(0.05)
"""
GANG = "[roles.worker]\ninstances = 4\n"


def wait_session(lab: KubernetesLab, session: int) -> None:
    """Wait until all four programs of a session run."""
    for index in range(4):
        lab.wait_wrote(f"up-{session}-{index}")


def test_all_pods_are_kept_when_a_program_is_killed(lab: KubernetesLab) -> None:
    job = lab.detach(lab.roles(GATE, GANG, "max_restarts = 1"))
    wait_session(lab, 1)
    before = {name: pod["metadata"]["uid"] for name, pod in lab.list_pods(job).items()}
    os.kill(lab.pid_of(job, "worker:2"), signal.SIGKILL)
    wait_session(lab, 2)
    assert {name: pod["metadata"]["uid"] for name, pod in lab.list_pods(job).items()} == before
    (lab.out / "gate").touch()
    assert lab.wait(job)["state"] == "succeeded"
    assert lab.wait_ended(job) == "succeeded"
    until(lambda: not lab.processes(job), "no process is left")
