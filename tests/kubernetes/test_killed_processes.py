"""Programs, executors and application masters are killed in their pods."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping

import pytest

from tests.change_detection import KUBERNETES
from tests.e2e.lab import until
from tests.kubernetes.lab import AM_PART, KubernetesLab

pytestmark = [pytest.mark.on_change(*KUBERNETES), pytest.mark.slow, pytest.mark.e2e]

#: Ends with its gate: a file in `$OUT`.
GATE = """
import os, time
task = "-".join(os.environ[name] for name in ("KILLED", "SESSION_ID", "TASK_INDEX"))
open(f"{os.environ['OUT']}/{task}", "w").close()
while not os.path.exists(f"{os.environ['OUT']}/gate"):
    time.sleep(0.05)
"""


def wait_pods(lab: KubernetesLab, job: str) -> Mapping[str, str]:
    """Wait until the API server knows that the three tasks run; return pod of a running task -> its uid."""

    def list_uids() -> Mapping[str, str] | None:
        found = {
            name: pod["metadata"]["uid"]
            for name, pod in lab.list_pods(job).items()
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        }
        return found if len(found) == 3 else None

    return dict(until(list_uids, f"three pods of {job} run"))


def submit(lab: KubernetesLab, killed: str) -> str:
    """Submit a job of three tasks; return its id. The node has CPUs for two of them."""
    return lab.detach(lab.roles(GATE, "[roles.worker]\ninstances = 3\n", "max_restarts = 1", KILLED=killed))


def wait_session(lab: KubernetesLab, job: str, killed: str, session: int) -> Mapping[str, int]:
    """Wait until all programs of a session run, and return their pids."""
    for index in range(3):
        lab.wait_wrote(f"{killed}-{session}-{index}")

    def list_pids() -> Mapping[str, int] | None:
        status = lab.status(job)
        pids = {task["task"]: task["pid"] for task in status["tasks"] if task["session"] == session}
        return pids if len(pids) == 3 and all(pids.values()) else None

    return dict(until(list_pids, f"session {session} runs"))


def wait_success(lab: KubernetesLab, job: str, session: int) -> None:
    status = lab.wait(job)
    assert (status["state"], status["session"]) == ("succeeded", session)
    assert lab.wait_ended(job) == "succeeded"
    replayed = lab.tony("replay", job)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr


def test_pods_are_kept_when_programs_and_executors_are_killed(lab: KubernetesLab) -> None:
    """A killed program: all pods are kept. A killed executor: all others are."""
    job, other = submit(lab, "program"), submit(lab, "executor")
    pids, pods = wait_session(lab, job, "program", 1), wait_pods(lab, job)
    wait_session(lab, other, "executor", 1)
    others = wait_pods(lab, other)
    os.kill(lab.executor_of(other, "worker:1"), signal.SIGKILL)
    os.kill(pids["worker:2"], signal.SIGKILL)
    wait_session(lab, job, "program", 2)
    assert wait_pods(lab, job) == pods
    wait_session(lab, other, "executor", 2)
    after = wait_pods(lab, other)
    assert len(after.items() & others.items()) == 2
    (lab.out / "gate").touch()
    for each in (job, other):
        wait_success(lab, each, 2)


def test_programs_continue_when_the_application_master_is_killed(lab: KubernetesLab) -> None:
    """It is started again in its pod, the first time after 10 s; and in another one when its pod is deleted."""
    job = submit(lab, "master")
    pids, pods = wait_session(lab, job, "master", 1), wait_pods(lab, job)
    (am,) = lab.list_pods(job, AM_PART)
    os.kill(lab.master_of(job), signal.SIGKILL)
    lab.wait_attempt(job, 2)
    assert [*lab.list_pods(job, AM_PART)] == [am]
    lab.delete_pod(am)
    lab.wait_attempt(job, 3)
    assert wait_session(lab, job, "master", 1) == pids
    assert wait_pods(lab, job) == pods
    (lab.out / "gate").touch()
    wait_success(lab, job, 1)
