"""What an AM does to pods that are not its own, or that ended while there was no AM."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kube.fake_api import FakeApi, Object
from tests.kube.scripted_server import Answer, Request, ScriptedServer
from tests.support.waiting import wait_until
from tony.client.credential_creation import make_credentials
from tony.core.events import ContainerEnded, Event, Excluded, Granted, Unsatisfiable
from tony.errors import AttemptSupersededError, UserError
from tony.hadoop.tokens import TokenCredentials
from tony.kube import denials, resources
from tony.kube.api_client import ApiClient, ObjectList
from tony.kube.cluster_access import ClusterAccess
from tony.model.job_report import JobReport
from tony.model.states import JobState
from tony.schedulers.allocator_interface import AmAddresses, KnownContainer
from tony.schedulers.job_store.config_map_job_store import ConfigMapJobStore
from tony.schedulers.job_store.job_objects import build_labels
from tony.schedulers.kubernetes import allocator, own_pod, pod_requests
from tony.schedulers.kubernetes.allocator import KubernetesAllocator
from tony.schedulers.kubernetes.am_tokens import AmTokens
from tony.schedulers.kubernetes.hadoop_access import HadoopAccess, HadoopSummary
from tony.schedulers.kubernetes.launch_payload import AM_ADDRESS, AmPayload
from tony.schedulers.kubernetes.manifests import ROLE_LABEL, TASK_PART
from tony.testing.sample_jobs import build_prepared_job, build_two_roles

JOBS = "/apis/batch/v1/namespaces/ml/jobs"
PODS = "/api/v1/namespaces/ml/pods"
RUNTIME = "0" * 64


class _Cluster:
    """A fake API server, and the allocator of the AM in the pod `am`.

    Attributes:
        events: of the allocator.
    """

    def __init__(self, folder: Path, server: ScriptedServer) -> None:
        self.api, self.server = FakeApi(), server
        self.events: list[Event] = []
        server.answer = self.api.answer
        spec = replace(build_two_roles(), scheduler="kubernetes", scheduler_settings={"image": "python:3.12"})
        job = build_prepared_job(folder, spec, job_id="job-1")
        payload = AmPayload(
            record=job.record,
            credentials=make_credentials(tls=False),
            runtime=RUNTIME,
            objects={RUNTIME: 1},
            owner="uid-1",
        )
        self.client = ApiClient(ClusterAccess(server=server.url, namespace="ml"), give_up_seconds=0)
        store = ConfigMapJobStore(self.client, "job-1", "uid-1")
        self.allocator = KubernetesAllocator(job, payload, "am", "127.0.0.1", self.client, store, 2)
        self.create(JOBS, {"metadata": {"name": "job-1"}, "spec": {}})
        self.create(PODS, {"metadata": {"name": "am"}})

    def create(self, path: str, body: Object) -> None:
        self.api.answer(Request(method="POST", target=path, headers={"Accept": ""}, body=body))

    def create_task_pod(self, name: str) -> None:
        """Create a pod of a task that runs."""
        metadata = {"name": name, "labels": build_labels("job-1", TASK_PART)}
        self.create(PODS, {"metadata": metadata, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}})


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_pod, "_INTERVAL_SECONDS", 0.01)


@asynccontextmanager
async def open_cluster(folder: Path) -> AsyncIterator[_Cluster]:
    with ScriptedServer().serve() as server:
        made = _Cluster(folder, server)
        try:
            yield made
            await wait_until(lambda: "job-1.job.json" in made.api.list_names("configmaps"))  # its last request
        finally:
            await made.allocator.close()
            made.api.close()
            made.client.close()


def test_containers_that_ended_while_there_was_no_am_have_certainly_ended(tmp_path: Path) -> None:
    """Whether their pods are still there or not: nothing waits for a lease."""

    async def run() -> None:
        async with open_cluster(tmp_path) as cluster:
            for name in ("runs", "ended"):
                cluster.create_task_pod(name)
            terminated = {"containerStatuses": [{"name": "tony", "state": {"terminated": {"exitCode": 3}}}]}
            cluster.api.update(PODS, "ended", {"status": {"phase": "Failed", **terminated}})
            await cluster.allocator.open(cluster.events.append)
            known = [KnownContainer(id=name, role="worker", host="n") for name in ("runs", "ended", "deleted")]
            assert await cluster.allocator.recover(known) == ["runs"]
            ends = {each.container: each for each in cluster.events if isinstance(each, ContainerEnded)}
            assert "exit code 3" in ends["ended"].cause
            assert "deleted" in ends["deleted"].cause
            assert not any(each.is_unconfirmed for each in ends.values())

    asyncio.run(run())


def test_an_executor_that_knows_only_the_previous_am_is_replaced(tmp_path: Path) -> None:
    """It has no task yet, so it cannot be told where the AM is now; one that has registered can be called."""

    async def run() -> None:
        async with open_cluster(tmp_path) as cluster:
            addresses = {"before": "tls:10.0.0.1:7070", "now": "tls:10.0.0.2:7070", "registered": "tls:10.0.0.1:7070"}
            for name, address in addresses.items():
                cluster.create_task_pod(name)
                container = {"name": "tony", "env": [{"name": AM_ADDRESS, "value": address}]}
                cluster.api.update(PODS, name, {"spec": {"containers": [container]}})
            await cluster.allocator.open(cluster.events.append, AmAddresses(am="tls:10.0.0.2:7070"))
            pids = {"before": None, "now": None, "registered": 1}
            known = [KnownContainer(id=name, role="worker", host="n", executor_pid=pid) for name, pid in pids.items()]
            assert await cluster.allocator.recover(known) == ["now", "registered"]
            assert [each.container for each in cluster.events if isinstance(each, ContainerEnded)] == ["before"]
            await wait_until(lambda: cluster.api.list_names("pods") == ["am", "now", "registered"])

    asyncio.run(run())


def test_an_am_whose_pod_was_deleted_leaves_the_pods_of_the_next_one_alone(tmp_path: Path) -> None:
    async def run() -> None:
        async with open_cluster(tmp_path) as cluster:
            await cluster.allocator.open(cluster.events.append)
            await cluster.allocator.recover(())
            cluster.api.remove(PODS, "am")
            cluster.create_task_pod("next")
            cluster.allocator.set_demand("worker", 1)
            with pytest.raises(AttemptSupersededError, match="its pod is being deleted"):
                await cluster.allocator.watch()
            assert cluster.api.list_names("pods") == ["next"]
            assert cluster.events == []

    asyncio.run(run())


def test_an_am_whose_pod_was_deleted_creates_no_more_of_many_pods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most of them wait for their turn when it is deleted."""
    monkeypatch.setattr(pod_requests, "_PROOF_SECONDS", 0.0)
    monkeypatch.setattr(allocator, "_CLOSE_SECONDS", 0.0)  # at the end some still wait for the pause between requests

    async def run() -> None:
        async with open_cluster(tmp_path) as cluster:
            held = threading.Semaphore(0)
            under_way: list[Request] = []

            def answer(request: Request) -> Answer:
                if request.method == "POST" and request.target == PODS:
                    under_way.append(request)
                    assert held.acquire(timeout=60)
                return cluster.api.answer(request)

            cluster.server.answer = answer
            await cluster.allocator.open(cluster.events.append)
            await cluster.allocator.recover(())
            cluster.allocator.set_demand("worker", 50)
            await wait_until(lambda: len(under_way) == pod_requests._MAX_CONCURRENT_REQUESTS)
            cluster.api.remove(PODS, "am")
            held.release(50)
            with pytest.raises(AttemptSupersededError, match="its pod is being deleted"):
                await cluster.allocator.watch()
            await wait_until(lambda: len(cluster.api.list_names("pods")) == len(under_way))
            assert len(under_way) == pod_requests._MAX_CONCURRENT_REQUESTS

    asyncio.run(run())


def test_pods_without_a_node_are_kept_by_an_am_that_was_started_again(tmp_path: Path) -> None:
    """Thousands may wait for the scheduler. One of a gang, or that looks for the AM elsewhere, is created anew."""

    async def run() -> None:
        async with open_cluster(tmp_path) as cluster:
            address = "tls:10.0.0.2:7070"
            for name, known in (("waits", address), ("elsewhere", "tls:10.0.0.1:7070"), ("gang", address)):
                cluster.create_task_pod(name)
                container = {"name": "tony", "env": [{"name": AM_ADDRESS, "value": known}]}
                change = {"metadata": {"labels": {ROLE_LABEL: "worker"}}, "spec": {"containers": [container]}}
                cluster.api.update(PODS, name, change | {"status": {"phase": "Pending"}})
                cluster.api.update(PODS, name, {"spec": {"nodeName": ""}})
            cluster.api.update(PODS, "gang", {"spec": {"schedulingGroup": {"podGroupName": "g1-1"}}})
            await cluster.allocator.open(cluster.events.append, AmAddresses(am=address))
            early = asyncio.create_task(cluster.allocator.enlist("waits", "process"))
            await asyncio.sleep(0)
            assert await cluster.allocator.recover(()) == []
            cluster.allocator.set_demand("worker", 1)
            await wait_until(lambda: cluster.api.list_names("pods") == ["am", "waits"])
            assert not cluster.events
            cluster.api.update(PODS, "waits", {"spec": {"nodeName": "n"}})
            await wait_until(lambda: [type(each) for each in cluster.events] == [Granted])
            await wait_until(lambda: cluster.allocator._table.pods["waits"].has_enlisted)
            early.cancel()

    asyncio.run(run())


def test_a_pod_without_a_node_that_is_deleted_meanwhile_is_created_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list of the next AM attempt still had it; its watch begins with that list."""

    async def run() -> None:
        async with open_cluster(tmp_path) as cluster:
            cluster.create_task_pod("late")
            container = {"name": "tony", "env": [{"name": AM_ADDRESS, "value": "tls:10.0.0.2:7070"}]}
            change = {"metadata": {"labels": {ROLE_LABEL: "worker"}}, "spec": {"containers": [container]}}
            cluster.api.update(PODS, "late", change | {"status": {"phase": "Pending"}})
            cluster.api.update(PODS, "late", {"spec": {"nodeName": ""}})
            await cluster.allocator.open(cluster.events.append, AmAddresses(am="tls:10.0.0.2:7070"))
            requests = cluster.allocator._requests
            find_pods = requests.list

            async def find_pods_late() -> ObjectList:
                found = await find_pods()
                cluster.api.remove(PODS, "late")
                return found

            monkeypatch.setattr(requests, "list", find_pods_late)
            await cluster.allocator.recover(())
            cluster.allocator.set_demand("worker", 1)
            await wait_until(lambda: len(cluster.api.list_names("pods")) == 2)
            assert "late" not in cluster.api.list_names("pods")

    asyncio.run(run())


def test_a_pod_that_no_am_attempt_knows_is_deleted(tmp_path: Path) -> None:
    """A request of the AM attempt before was carried out late."""

    async def run() -> None:
        async with open_cluster(tmp_path) as cluster:
            await cluster.allocator.open(cluster.events.append)
            await cluster.allocator.recover(())
            cluster.create_task_pod("late")
            await wait_until(lambda: cluster.api.list_names("pods") == ["am"])

    asyncio.run(run())


def test_a_pod_is_kept_although_the_answer_to_its_creation_comes_late(tmp_path: Path) -> None:
    """Its executor was released, and has the time to exit that it was given."""

    async def run() -> None:
        async with open_cluster(tmp_path) as cluster:
            answered = threading.Event()

            def answer(request: Request) -> Answer:
                found = cluster.api.answer(request)
                if request.method == "POST" and request.target == PODS:
                    assert answered.wait(60)
                return found

            cluster.server.answer = answer
            await cluster.allocator.open(cluster.events.append)
            await cluster.allocator.recover(())
            cluster.allocator.set_demand("worker", 1)
            await wait_until(lambda: len(cluster.api.list_names("pods")) == 2)
            (name,) = set(cluster.api.list_names("pods")) - {"am"}
            cluster.api.update(PODS, name, {"spec": {"nodeName": "n"}, "status": {"phase": "Running"}})
            await wait_until(lambda: any(isinstance(each, Granted) for each in cluster.events))
            cluster.allocator.set_demand("worker", 0)
            cluster.allocator._table.pods[name].is_used = True
            cluster.allocator.release(name, 60.0)
            answered.set()
            await wait_until(lambda: not cluster.allocator._tasks)
            assert name in cluster.api.list_names("pods")
            cluster.api.remove(PODS, name)

    asyncio.run(run())


def test_a_deleted_pod_that_its_node_does_not_remove_may_still_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost node never removes it; the job waits for the lease of its executor only. So does the next AM attempt.

    If the node answers again, the job need not wait any longer.
    """
    monkeypatch.setattr(allocator, "_REMOVAL_SECONDS", 0.05)

    async def run() -> None:
        async with open_cluster(tmp_path) as cluster:
            cluster.api.on_pod = lambda pod: None  # there is no kubelet
            for name in ("deleted", "killed"):
                cluster.create_task_pod(name)
            deletion = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
            cluster.api.update(PODS, "deleted", {"metadata": deletion})
            await cluster.allocator.open(cluster.events.append)
            await cluster.allocator.recover(
                [KnownContainer(id=name, role="worker", host="n", executor_pid=1) for name in ("deleted", "killed")]
            )
            cluster.allocator.kill("killed", "it is silent")
            await wait_until(lambda: len([each for each in cluster.events if isinstance(each, ContainerEnded)]) == 2)
            ends = [each for each in cluster.events if isinstance(each, ContainerEnded)]
            assert {("its node n does not respond", True)} == {(each.cause, each.is_unconfirmed) for each in ends}
            terminated = {"containerStatuses": [{"name": "tony", "state": {"terminated": {"exitCode": 3}}}]}
            cluster.api.update(PODS, "killed", {"status": {"phase": "Failed", **terminated}})
            cluster.api.remove(PODS, "deleted")
            await wait_until(lambda: len([each for each in cluster.events if isinstance(each, ContainerEnded)]) == 4)
            ends = [each for each in cluster.events if isinstance(each, ContainerEnded)]
            assert {each.container: each.is_unconfirmed for each in ends[2:]} == {"killed": False, "deleted": False}

    asyncio.run(run())


@pytest.mark.parametrize(("believed_seconds", "is_failing"), [(60.0, False), (0.0, True)])
def test_a_right_that_is_denied_for_a_moment_does_not_fail_the_job(
    believed_seconds: float, is_failing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API server that has just started does not know all roles yet; later it is believed."""
    monkeypatch.setattr(denials, "_BELIEVED_SECONDS", believed_seconds)
    text = 'pods is forbidden: User "system:serviceaccount:ml:tony" cannot create resource "pods" in API group ""'

    async def run() -> None:
        async with open_cluster(tmp_path) as cluster:
            refused: list[Request] = []

            def answer(request: Request) -> Answer:
                if request.method == "POST" and request.target == PODS and len(refused) < 2:
                    refused.append(request)
                    return Answer(status=403, body={"kind": "Status", "reason": "Forbidden", "message": text})
                return cluster.api.answer(request)

            cluster.server.answer = answer
            await cluster.allocator.open(cluster.events.append)
            await cluster.allocator.recover(())
            cluster.allocator.set_demand("worker", 1)
            found = cluster.events
            await wait_until(lambda: bool(found) if is_failing else len(cluster.api.list_names("pods")) == 2)
            assert is_failing == any(isinstance(each, Unsatisfiable) for each in cluster.events)

    asyncio.run(run())


def test_a_token_that_has_expired_does_not_fail_the_job(tmp_path: Path) -> None:
    """The kubelet writes another one soon."""

    async def run() -> None:
        async with open_cluster(tmp_path) as cluster:
            refused: list[Request] = []

            def answer(request: Request) -> Answer:
                if request.method == "POST" and request.target == PODS and len(refused) < 3:
                    refused.append(request)
                    return Answer(status=401, body={"kind": "Status", "reason": "Unauthorized", "message": "expired"})
                return cluster.api.answer(request)

            cluster.server.answer = answer
            await cluster.allocator.open(cluster.events.append)
            await cluster.allocator.recover(())
            cluster.allocator.set_demand("worker", 1)
            await wait_until(lambda: len(cluster.api.list_names("pods")) == 2)
            assert not [each for each in cluster.events if isinstance(each, Unsatisfiable)]

    asyncio.run(run())


def test_a_node_is_excluded_only_while_others_have_room(tmp_path: Path) -> None:
    """A pod prefers other nodes; if it gets the excluded one, no other can take it."""

    async def run() -> None:
        async with open_cluster(tmp_path) as cluster:
            await cluster.allocator.open(cluster.events.append)
            await cluster.allocator.recover(())

            async def grant(count: int, node: str) -> None:
                known = set(cluster.api.list_names("pods"))
                cluster.allocator.set_demand("worker", count)
                await wait_until(lambda: set(cluster.api.list_names("pods")) > known)
                (name,) = set(cluster.api.list_names("pods")) - known
                cluster.api.update(PODS, name, {"spec": {"nodeName": node}, "status": {"phase": "Running"}})
                await wait_until(lambda: sum(isinstance(each, Granted) for each in cluster.events) == count)

            await grant(1, "bad")
            cluster.allocator.exclude("bad")
            await grant(2, "good")
            await grant(3, "bad")
            found = [each for each in cluster.events if isinstance(each, Granted | Excluded)]
            words = [each.host if isinstance(each, Granted) else each.hosts for each in found]
            assert words == ["bad", ("bad",), "good", (), "bad"]

    asyncio.run(run())


def test_tokens_that_cannot_be_cancelled_do_not_change_the_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Job fails nevertheless, and the event loop does not wait for the DNS."""
    limits: list[int] = []

    async def run() -> None:
        async with open_cluster(tmp_path) as cluster:

            def cancel(*_: object) -> None:
                assert threading.current_thread() is not threading.main_thread()
                limits.append(cluster.client.get(resources.JOBS, "job-1")["spec"]["backoffLimit"])
                raise UserError("dfs.namenode.rpc-address.nn is required")

            monkeypatch.setattr(HadoopAccess, "cancel_fetched_tokens", cancel)
            summary = HadoopSummary(user="ann", settings={}, file_systems=(), is_fetched=True)
            cluster.allocator._tokens = AmTokens(HadoopAccess(summary, TokenCredentials()))
            await cluster.allocator.open(cluster.events.append)
            await cluster.allocator.recover(())
            report = JobReport(
                job="job-1",
                name="job",
                state=JobState.FAILED,
                session=1,
                attempt=1,
                exit_code=1,
                folder="",
                am=None,
                tasks=(),
                failure=None,
                submitted=0.0,
            )
            await cluster.allocator.finish(report)
            assert limits == [0]

    asyncio.run(run())
