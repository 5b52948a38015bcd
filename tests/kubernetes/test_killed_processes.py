"""Programs, executors and application masters are killed in their pods."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping

import pytest

from tests.e2e.lab import until
from tests.kubernetes.lab import AM_PART, KubernetesLab

pytestmark = [pytest.mark.on_change("kube", "mini", "schedulers"), pytest.mark.slow, pytest.mark.e2e]

TASKS = [f"worker:{index}" for index in range(4)]
#: Ends with its gate: a file in `$OUT`.
GATE = """
import os, time
open(f"{os.environ['OUT']}/up-{os.environ['SESSION_ID']}-{os.environ['TASK_INDEX']}", "w").close()
while not os.path.exists(f"{os.environ['OUT']}/gate"):
    time.sleep(0.05)
"""


def list_uids(lab: KubernetesLab, job: str) -> Mapping[str, str]:
    """Return pod of a running task -> its uid."""
    return {
        name: pod["metadata"]["uid"]
        for name, pod in lab.list_pods(job).items()
        if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
    }


def wait_session(lab: KubernetesLab, job: str, session: int) -> Mapping[str, int]:
    """Wait until all programs of a session run, and return their pids."""
    for index in range(4):
        lab.wait_wrote(f"up-{session}-{index}")

    def list_pids() -> Mapping[str, int] | None:
        status = lab.status(job)
        pids = {task["task"]: task["pid"] for task in status["tasks"] if task["session"] == session}
        return pids if len(pids) == 4 and all(pids.values()) else None

    return dict(until(list_pids, f"session {session} runs"))


def test_a_job_survives_all_of_its_processes(lab: KubernetesLab) -> None:
    """A killed program: all pods are kept. An executor: three are. The AM, twice, and its pod: all programs go on."""
    job = lab.detach(lab.roles(GATE, "[roles.worker]\ninstances = 4\n", 'max_restarts = 2\nbackoff = "10ms"'))
    pids = wait_session(lab, job, 1)
    pods = list_uids(lab, job)
    assert len(pods) == 4
    os.kill(pids["worker:2"], signal.SIGKILL)
    wait_session(lab, job, 2)
    assert list_uids(lab, job) == pods

    os.kill(lab.executor_of(job, "worker:1"), signal.SIGKILL)
    pids = wait_session(lab, job, 3)
    after = list_uids(lab, job)
    assert (len(after), len(after.items() & pods.items())) == (4, 3)

    (am,) = lab.list_pods(job, AM_PART)
    for attempt in (2, 3):
        os.kill(lab.master_of(job), signal.SIGKILL)
        until(lambda number=attempt: lab.status(job)["attempt"] == number, f"AM attempt {attempt} continues")
    assert [*lab.list_pods(job, AM_PART)] == [am], "it is started again in its pod"
    lab.delete_pod(am)
    until(lambda: lab.status(job)["attempt"] == 4, "an AM in another pod continues")
    assert am not in lab.list_pods(job, AM_PART)
    assert wait_session(lab, job, 3) == pids
    assert list_uids(lab, job) == after
    (lab.out / "gate").touch()
    status = lab.wait(job)
    assert (status["state"], status["session"]) == ("succeeded", 3)
    assert lab.wait_ended(job) == "succeeded"
    replayed = lab.tony("replay", job)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
