"""Gangs that a real Kueue admits, has wait and evicts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.lab import one_user, until
from tests.kubernetes.kueue import CLUSTER_QUEUE, HIGH_PRIORITY, LOCAL_QUEUES, run_kueue, skip_unless_built
from tests.kubernetes.nodes import NodesLab, run_nodes
from tony.kube.resources import ROLES
from tony.mini.kubernetes.cluster import KubernetesCluster
from tony.schedulers.kubernetes.access_rules import AM_RULES, KUEUE_RULES, build_account_objects
from tony.schedulers.kubernetes.settings import KubernetesSettings

pytestmark = [
    pytest.mark.long,  # with a fake API server: tests/schedulers/kubernetes/test_gangs.py
    pytest.mark.slow,
    pytest.mark.e2e,
    pytest.mark.xdist_group("shared-kubernetes"),  # it has a cluster of its own, but not at the same time
]
#: Ends with its gate: a file in `$OUT` with the name of its job.
PROGRAM = """
import os, time
print("session", os.environ["SESSION_ID"], flush=True)
while not os.path.exists(f"{os.environ['OUT']}/{os.environ['GATE']}"):
    time.sleep(0.05)
"""
JOB = """\
[scheduler.kubernetes]
queue = "team"
{settings}
[roles.worker]
instances = 3
"""
PRIORITY = f"""\
[scheduler.kubernetes.template.metadata.labels]
"kueue.x-k8s.io/priority-class" = "{HIGH_PRIORITY}"
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[KubernetesCluster]:
    skip_unless_built()
    with run_nodes(1) as made, run_kueue(made):
        yield made


@pytest.fixture
def lab(cluster: KubernetesCluster) -> Iterator[NodesLab]:
    """A user with a queue, whose AMs may read what Kueue says."""
    with one_user(lambda folder: NodesLab(folder, cluster)) as made:
        metadata = {"name": "team"}
        kind = {"apiVersion": LOCAL_QUEUES.api_version, "kind": LOCAL_QUEUES.kind}
        made.client.create(LOCAL_QUEUES, {**kind, "metadata": metadata, "spec": {"clusterQueue": CLUSTER_QUEUE}})
        account = KubernetesSettings().service_account
        (rules,) = [
            body["rules"]
            for resource, body in build_account_objects(account, (*AM_RULES, *KUEUE_RULES))
            if resource == ROLES
        ]
        made.client.patch(ROLES, account, {"rules": rules})
        yield made


def submit(lab: NodesLab, name: str, settings: str = "") -> str:
    return lab.detach(lab.roles(PROGRAM, JOB.format(settings=settings), f'name = "{name}"', GATE=name))


def count_running(lab: NodesLab, job: str) -> int:
    return sum(pod["status"].get("phase") == "Running" for pod in lab.list_pods(job).values())


def test_two_gangs_that_do_not_both_fit_run_one_after_the_other(lab: NodesLab) -> None:
    first = submit(lab, "first")
    until(lambda: count_running(lab, first) == 3, "the first job runs")
    second = submit(lab, "second")
    until(lambda: "insufficient unused quota for pods" in _find_words(lab, second), "it waits, in the words of Kueue")
    assert (count_running(lab, first), count_running(lab, second)) == (3, 0)
    (lab.out / "first").touch()
    assert lab.wait(first)["state"] == "succeeded"
    until(lambda: count_running(lab, second) == 3, "the second job runs")
    (lab.out / "second").touch()
    assert lab.wait(second)["state"] == "succeeded"


def test_a_gang_that_kueue_evicts_restarts_when_there_is_quota_again(lab: NodesLab) -> None:
    """As the next session, which does not count: `max_restarts` is 0."""
    low = submit(lab, "low")
    until(lambda: count_running(lab, low) == 3, "the job of low priority runs")
    before = lab.find_uids(low)
    high = submit(lab, "high", PRIORITY)
    until(lambda: count_running(lab, high) == 3, "the job of high priority runs")
    until(lambda: _find_words(lab, low), "the other one waits, in the words of Kueue")
    assert count_running(lab, low) == 0
    (lab.out / "high").touch()
    assert lab.wait(high)["state"] == "succeeded"
    until(lambda: count_running(lab, low) == 3, "the job of low priority runs again")
    assert not set(before.values()) & set(lab.find_uids(low).values())
    (lab.out / "low").touch()
    status = lab.wait(low)
    assert (status["state"], status["session"]) == ("succeeded", 2)
    causes = {str(each.get("cause", "")) for each in lab.events_of(low, "container-ended")}
    assert any("Kueue ended it" in cause for cause in causes), causes


def _find_words(lab: NodesLab, job: str) -> str:
    waiting = str(lab.status(job)["waiting"] or "")
    return waiting if waiting.startswith("Kueue: ") else ""
