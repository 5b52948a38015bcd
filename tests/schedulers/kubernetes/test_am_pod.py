"""An AM attempt is the current one as long as the API server has just shown its pod."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.kube.fake_api import FakeApi, Object
from tests.kube.scripted_server import Answer, Request, ScriptedServer
from tests.support.waiting import wait_until
from tony import clock
from tony.kube.api_client import ApiClient
from tony.kube.cluster_access import ClusterAccess
from tony.schedulers.allocator_interface import SignalEffect
from tony.schedulers.kubernetes import am_pod
from tony.schedulers.kubernetes.am_pod import AmPod, forbid_replacement
from tony.schedulers.kubernetes.job_end import read_end_reason

JOBS = "/apis/batch/v1/namespaces/ml/jobs"
PODS = "/api/v1/namespaces/ml/pods"
SECRETS = "/api/v1/namespaces/ml/secrets"


@dataclass(slots=True)
class _Cluster:
    """An API server with the AM's pod, `am`; `is_silent`: its answers are lost."""

    api: FakeApi
    client: ApiClient
    is_silent: bool = False

    def answer(self, request: Request) -> Answer:
        return Answer(is_lost=True) if self.is_silent else self.api.answer(request)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Cluster]:
    monkeypatch.setattr(am_pod, "_INTERVAL_SECONDS", 0.005)
    with ScriptedServer().serve() as server:
        client = ApiClient(ClusterAccess(server=server.url, namespace="ml"), give_up_seconds=0)
        found = _Cluster(FakeApi(), client)
        found.api.objects[JOBS, "job-1"] = {"metadata": {"name": "job-1"}, "spec": {}}
        found.api.objects[PODS, "am"] = {"metadata": {"name": "am", "uid": "1"}}
        server.answer = found.answer
        yield found
        client.close()


async def test_a_pod_that_is_being_deleted_has_a_successor(cluster: _Cluster) -> None:
    pod = AmPod(cluster.client, "job-1", "am", 60.0)
    assert not pod.is_current
    watching = asyncio.create_task(pod.watch())
    await wait_until(lambda: pod.is_current)
    cluster.api.update(PODS, "am", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    await watching
    assert (pod.is_current, pod.is_left.is_set()) == (False, True)


async def test_a_pod_that_was_deleted_by_force_has_a_successor(cluster: _Cluster) -> None:
    pod = AmPod(cluster.client, "job-1", "am", 60.0)
    cluster.api.remove(PODS, "am")
    await pod.watch()
    assert (pod.is_current, pod.is_left.is_set()) == (False, True)


async def test_an_api_server_that_is_silent_proves_nothing(cluster: _Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is as old as the request: this process may have been suspended since."""
    pod = AmPod(cluster.client, "job-1", "am", 60.0)
    watching = asyncio.create_task(pod.watch())
    await wait_until(lambda: pod.is_current)
    cluster.is_silent = True
    real = clock.monotonic
    monkeypatch.setattr(clock, "monotonic", lambda: real() + 61)
    assert not pod.is_current
    cluster.is_silent = False
    await wait_until(lambda: pod.is_current)
    watching.cancel()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, SignalEffect.LEAVE_JOB),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, SignalEffect.END_JOB),
        ({"spec": {"activeDeadlineSeconds": 1}}, SignalEffect.END_JOB),
    ],
)
async def test_a_signal_ends_the_job_only_if_the_job_is_to_end(
    cluster: _Cluster, change: Object, expected: SignalEffect
) -> None:
    cluster.api.update(JOBS, "job-1", change)
    pod = AmPod(cluster.client, "job-1", "am", 60.0)
    assert await pod.find_effect() is expected
    assert pod.is_left.is_set() == (expected is SignalEffect.LEAVE_JOB)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, 0),
        ({"failed": 2, "uncountedTerminatedPods": {"failed": ["uid-1"]}}, 3),
        ({"failed": 1, "uncountedTerminatedPods": {}}, 1),
    ],
)
def test_a_job_fails_with_its_next_pod_and_not_before(cluster: _Cluster, status: Object, expected: int) -> None:
    """Pods that have failed before are allowed: else the Job would end now, and delete the pod of this AM."""
    cluster.api.update(JOBS, "job-1", {"status": status})
    forbid_replacement(cluster.client, "job-1")
    assert expected == cluster.api.objects[JOBS, "job-1"]["spec"]["backoffLimit"]


def test_the_am_does_not_replace_a_client_s_reason(cluster: _Cluster) -> None:
    """It only knows that its pod was stopped."""
    for who in ("ann", "signal SIGTERM"):
        forbid_replacement(cluster.client, "job-1", f"killed by {who}")
        assert read_end_reason(cluster.api.objects[JOBS, "job-1"]) == "killed by ann"


async def test_the_secrets_of_a_job_that_has_ended_are_deleted(cluster: _Cluster) -> None:
    """Whichever it had; that of another job stays."""
    for name in ("job-1-am", "job-1-env", "job-10-am"):
        cluster.api.objects[SECRETS, name] = {"metadata": {"name": name}}
    await AmPod(cluster.client, "job-1", "am", 60.0).delete_secrets()
    assert cluster.api.list_names("secrets") == ["job-10-am"]
