"""Two jobs that do not both fit run one after the other: the scheduler of Kubernetes starts whole gangs."""

from __future__ import annotations

import secrets

import pytest

from tests.change_detection import KUBERNETES
from tests.e2e.lab import until
from tests.kubernetes.lab import KubernetesLab
from tony.schedulers.kubernetes.pod_groups import find_pod_groups

pytestmark = [pytest.mark.on_change(*KUBERNETES), pytest.mark.slow, pytest.mark.e2e]

#: Ends with its gate: a file in `$OUT`.
GATE = """
import os, time
while not os.path.exists(f"{os.environ['OUT']}/gate"):
    time.sleep(0.05)
"""


def count_running(lab: KubernetesLab, job: str) -> int:
    pods = lab.list_pods(job).values()
    return sum(bool(pod["spec"].get("nodeName")) for pod in pods)


def test_two_gangs_that_do_not_both_fit_run_one_after_the_other(lab: KubernetesLab) -> None:
    slot = f"tony.dev/slot-{secrets.token_hex(4)}"
    lab.add_resource(slot, 4)
    roles = f'[roles.worker]\ninstances = 3\n[roles.worker.resources]\n"{slot}" = 1\n'
    jobs = [lab.detach(lab.roles(GATE, roles)) for _ in range(2)]

    def find_waiting() -> str:
        return next((job for job in jobs if f"Insufficient {slot}" in (lab.status(job)["waiting"] or "")), "")

    second = until(find_waiting, "one of them waits, in the scheduler's words")
    (first,) = set(jobs) - {second}
    until(lambda: count_running(lab, first) == 3, "all of the other have a node")
    assert count_running(lab, second) == 0
    (lab.out / "gate").touch()
    for job in jobs:
        assert lab.wait(job)["state"] == "succeeded"
    groups = find_pod_groups(lab.client)
    assert groups
    until(lambda: not lab.client.list(groups).items, "no PodGroup is left")
