"""What an AM does to pods that are not its own, or that ended while there was no AM."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from tests.kube.fake_api import FakeApi, Object, refuse
from tests.kube.scripted_server import Answer, Request, ScriptedServer
from tests.schedulers.kubernetes.fake_cluster import JOBS, PODS, build_payload
from tests.support.waiting import wait_until
from tony.core.events import ContainerEnded, Event, Excluded, Granted, Queued, Unsatisfiable
from tony.errors import AttemptSupersededError, SchedulerError, UserError
from tony.hadoop.tokens import TokenCredentials
from tony.kube import denials, resources
from tony.kube.api_client import ApiClient, ObjectList
from tony.kube.cluster_access import ClusterAccess
from tony.model.job_report import JobReport
from tony.model.states import JobState
from tony.schedulers.allocator_interface import AmAddresses, KnownContainer
from tony.schedulers.job_store.config_map_job_store import ConfigMapJobStore
from tony.schedulers.job_store.job_objects import build_labels
from tony.schedulers.kubernetes import allocator, am_pod, pod_requests, pod_status
from tony.schedulers.kubernetes.allocator import KubernetesAllocator
from tony.schedulers.kubernetes.am_tokens import AmTokens
from tony.schedulers.kubernetes.hadoop_access import HadoopAccess, HadoopSummary
from tony.schedulers.kubernetes.launch_payload import AM_ADDRESS
from tony.schedulers.kubernetes.manifests import ROLE_LABEL, TASK_PART
from tony.testing.sample_jobs import build_prepared_job, build_two_roles

ADDRESS, PREVIOUS_ADDRESS = "tls:10.0.0.2:7070", "tls:10.0.0.1:7070"
FAILED: Object = {
    "phase": "Failed",
    "containerStatuses": [{"name": "tony", "state": {"terminated": {"exitCode": 3}}}],
}
E = TypeVar("E", bound=Event)


class _Cluster:
    """A fake API server, and the allocator of the AM in the pod `am`.

    Attributes:
        events: of the allocator.
        on_create: called for each request that creates a pod; it is refused with what this returns.
    """

    def __init__(self, folder: Path, server: ScriptedServer) -> None:
        self.api, self.server = FakeApi(), server
        self.events: list[Event] = []
        self.on_create: Callable[[], Answer | None] = lambda: None
        server.answer = self._answer
        spec = build_two_roles(scheduler="kubernetes", scheduler_settings={"image": "python:3.12"})
        job = build_prepared_job(folder, spec, job_id="job-1")
        payload = build_payload(job.record)
        self.client = ApiClient(ClusterAccess(server=server.url, namespace="ml"), give_up_seconds=0)
        store = ConfigMapJobStore(self.client, "job-1", payload.owner)
        self.allocator = KubernetesAllocator(job, payload, "am", "127.0.0.1", self.client, store, 2)
        self._create(JOBS, {"metadata": {"name": "job-1"}, "spec": {}})
        self._create(PODS, {"metadata": {"name": "am"}})

    def _answer(self, request: Request) -> Answer:
        refusal = self.on_create() if request.method == "POST" and request.target == PODS else None
        return refusal or self.api.answer(request)

    def _create(self, path: str, body: Object) -> None:
        self.api.answer(Request(method="POST", target=path, headers={"Accept": ""}, body=body))

    def create_task_pod(
        self, name: str, *, node: str = "n", am_address: str = ADDRESS, role: str = "worker", group: str = ""
    ) -> None:
        """Create a pod of a task, which runs if it has a node."""
        container = {"name": "tony", "env": [{"name": AM_ADDRESS, "value": am_address}]}
        body = {
            "metadata": {"name": name, "labels": {**build_labels("job-1", TASK_PART), ROLE_LABEL: role}},
            "spec": {"nodeName": node, "containers": [container], "schedulingGroup": {"podGroupName": group}},
            "status": {"phase": "Running" if node else "Pending"},
        }
        self._create(PODS, body)

    def find_pod(self, name: str) -> Object:
        return self.api.objects[PODS, name]

    @property
    def pods(self) -> list[str]:
        return self.api.list_names("pods")

    async def start(self, *known: KnownContainer) -> Sequence[str]:
        """Start the AM attempt; return the containers that it has kept."""
        await self.allocator.open(self.events.append, AmAddresses(am=ADDRESS))
        return await self.allocator.recover(known)

    def find_events(self, kind: type[E]) -> list[E]:
        return [each for each in self.events if isinstance(each, kind)]


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(am_pod, "_INTERVAL_SECONDS", 0.01)


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


def build_known(name: str, executor_pid: int | None = None) -> KnownContainer:
    return KnownContainer(id=name, role="worker", host="n", executor_pid=executor_pid)


async def test_containers_that_ended_while_there_was_no_am_have_certainly_ended(tmp_path: Path) -> None:
    """Whether their pods are still there or not: nothing waits for a lease."""
    async with open_cluster(tmp_path) as cluster:
        for name in ("runs", "ended"):
            cluster.create_task_pod(name)
        cluster.api.update(PODS, "ended", {"status": FAILED})
        assert await cluster.start(*map(build_known, ("runs", "ended", "deleted"))) == ["runs"]
        ends = {each.container: each for each in cluster.find_events(ContainerEnded)}
        assert "exit code 3" in ends["ended"].cause
        assert "deleted" in ends["deleted"].cause
        assert not any(each.is_unconfirmed for each in ends.values())


async def test_pods_that_a_quota_refuses_wait_for_one_reason(tmp_path: Path) -> None:
    """Refusals name the pod; and a kill does not wait for the next request."""
    async with open_cluster(tmp_path) as cluster:
        numbers = itertools.count()
        for text in ("exceeded quota: q", "status unknown for quota: q"):
            cluster.on_create = lambda text=text: refuse(  # type: ignore[misc]
                403, "Forbidden", f'pods "x{next(numbers)}" is forbidden: {text}'
            )
            if not cluster.events:
                await cluster.start()
                cluster.allocator.set_demand("worker", 3)
            await wait_until(lambda text=text: Queued(reason=text) in cluster.events)  # type: ignore[misc]
        assert [each.reason for each in cluster.find_events(Queued)] == [
            "exceeded quota: q",
            "status unknown for quota: q",
        ]
        assert not cluster.find_events(Unsatisfiable)


async def fail_start(cluster: _Cluster, pod: str, state: Object, phase: str = "Pending") -> None:
    """Have the kubelet report why the container of a pod does not start."""
    statuses = [{"name": "tony", "image": "x", "state": state}]
    cluster.api.update(PODS, pod, {"status": {"phase": phase, "containerStatuses": statuses}})


async def test_an_image_without_python_is_refused_as_soon_as_its_pod_ends(tmp_path: Path) -> None:
    async with open_cluster(tmp_path) as cluster:
        cluster.create_task_pod("a")
        await cluster.start(build_known("a"))
        error = {"reason": "StartError", "exitCode": 128, "message": 'exec: "python3": executable file not found'}
        await fail_start(cluster, "a", {"terminated": error}, "Failed")
        await wait_until(lambda: cluster.find_events(Unsatisfiable))
        assert "it has no python3 on its PATH" in cluster.find_events(Unsatisfiable)[0].reason


async def test_a_failed_pull_fails_the_job_when_it_does_not_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A registry that is slow is waited for, although it has refused before."""
    monkeypatch.setattr(pod_status, "_REFUSED_SECONDS", 1.0)
    async with open_cluster(tmp_path) as cluster:
        for name in ("refused", "slow", "passes"):
            cluster.create_task_pod(name)
        await cluster.start(*map(build_known, ("refused", "slow", "passes")))
        refused: Object = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
        slow: Object = {"waiting": {"reason": "ErrImagePull", "message": "429"}}
        running: Object = {"running": {}}
        for name, states in {"slow": [refused, slow], "passes": [refused, running], "refused": [refused, slow]}.items():
            for state in states:
                await fail_start(cluster, name, state)
        await fail_start(cluster, "refused", refused)
        await wait_until(
            lambda: (
                ": not found; the job fails if that lasts for 1 s" in cluster.allocator.find_start_failure("refused")
            )
        )
        assert not cluster.allocator.find_start_failure("passes")
        await wait_until(lambda: cluster.find_events(Unsatisfiable))  # of the last one
        assert {each.reason for each in cluster.find_events(Unsatisfiable)} == {
            "image x cannot be pulled (see `image` and `pull_secrets`): not found"
        }


async def test_a_pod_is_replaced_whose_node_cannot_create_its_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_status, "_REFUSED_SECONDS", 0.05)
    async with open_cluster(tmp_path) as cluster:
        cluster.create_task_pod("a")
        await cluster.start(build_known("a"))
        deleted: list[Object] = []
        cluster.api.on_pod = deleted.append
        await fail_start(cluster, "a", {"waiting": {"reason": "CreateContainerError", "message": "no such device"}})
        await wait_until(lambda: deleted)
        with pytest.raises(SchedulerError, match=r"a is being deleted: .* no such device"):  # it has started after all
            await cluster.allocator.enlist("a", "its executor")
        assert not cluster.find_events(ContainerEnded)
        cluster.api.on_pod = None
        cluster.api.remove(PODS, "a")
        await wait_until(lambda: cluster.find_events(ContainerEnded))
        (end,) = cluster.find_events(ContainerEnded)
        assert "CreateContainerError: no such device" in end.cause
        assert not end.blameless
        await wait_until(lambda: cluster.pods == ["am"])
        assert not cluster.find_events(Unsatisfiable)


async def test_nodes_are_the_cause_while_a_pod_of_an_earlier_am_attempt_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later pod of its role fails on each node; one was left by the AM attempt before."""
    monkeypatch.setattr(pod_status, "_REFUSED_SECONDS", 0.05)
    failing = {"waiting": {"reason": "CreateContainerError", "message": "no such device"}}
    async with open_cluster(tmp_path) as cluster:
        names = ["b", "c", "d", "e"]
        for name in ("a", *names):
            cluster.create_task_pod(name, node=f"node-{name}")
        cluster.api.on_pod = lambda pod: None
        await fail_start(cluster, "e", failing)
        cluster.client.delete(resources.PODS, "e")
        await cluster.start(build_known("a", executor_pid=1), *map(build_known, names))
        for name in names[:3]:
            await fail_start(cluster, name, failing)
        await wait_until(lambda: all("deletionTimestamp" in cluster.find_pod(name)["metadata"] for name in names))
        cluster.api.on_pod = None
        for name in names:
            cluster.api.remove(PODS, name)
        await wait_until(lambda: len(cluster.find_events(ContainerEnded)) == len(names))
        for end in cluster.find_events(ContainerEnded):
            assert "no such device" in end.cause
            assert not end.blameless
        assert not cluster.find_events(Unsatisfiable)


async def test_an_executor_that_knows_only_the_previous_am_is_replaced(tmp_path: Path) -> None:
    """It has no task yet, so it cannot be told where the AM is now; one that has registered can be called."""
    async with open_cluster(tmp_path) as cluster:
        for name, address in (("before", PREVIOUS_ADDRESS), ("now", ADDRESS), ("registered", PREVIOUS_ADDRESS)):
            cluster.create_task_pod(name, am_address=address)
        known = [build_known("before"), build_known("now"), build_known("registered", executor_pid=1)]
        assert await cluster.start(*known) == ["now", "registered"]
        assert [each.container for each in cluster.find_events(ContainerEnded)] == ["before"]
        await wait_until(lambda: cluster.pods == ["am", "now", "registered"])


async def test_an_am_whose_pod_was_deleted_leaves_the_pods_of_the_next_one_alone(tmp_path: Path) -> None:
    async with open_cluster(tmp_path) as cluster:
        await cluster.start()
        cluster.api.remove(PODS, "am")
        cluster.create_task_pod("next")
        cluster.allocator.set_demand("worker", 1)
        with pytest.raises(AttemptSupersededError, match="its pod is being deleted"):
            await cluster.allocator.watch()
        assert cluster.pods == ["next"]
        assert cluster.events == []


async def test_an_am_whose_pod_was_deleted_creates_no_more_of_many_pods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most of them wait for their turn when it is deleted."""
    monkeypatch.setattr(pod_requests, "_PROOF_SECONDS", 0.0)
    monkeypatch.setattr(allocator, "_CLOSE_SECONDS", 0.0)  # at the end some still wait for the pause between requests
    async with open_cluster(tmp_path) as cluster:
        held = threading.Semaphore(0)
        under_way: list[str] = []

        def hold() -> None:
            under_way.append("a request")
            assert held.acquire(timeout=60)

        cluster.on_create = hold
        await cluster.start()
        cluster.allocator.set_demand("worker", 50)
        await wait_until(lambda: len(under_way) == pod_requests._MAX_CONCURRENT_REQUESTS)
        cluster.api.remove(PODS, "am")
        held.release(50)
        with pytest.raises(AttemptSupersededError, match="its pod is being deleted"):
            await cluster.allocator.watch()
        await wait_until(lambda: len(cluster.pods) == len(under_way))
        assert len(under_way) == pod_requests._MAX_CONCURRENT_REQUESTS


async def test_pods_without_a_node_are_kept_by_an_am_that_was_started_again(tmp_path: Path) -> None:
    """Thousands may wait for the scheduler. One of a gang, or that looks for the AM elsewhere, is created anew.

    One of a role that no longer needs any is deleted.
    """
    async with open_cluster(tmp_path) as cluster:
        cluster.create_task_pod("waits", node="")
        cluster.create_task_pod("elsewhere", node="", am_address=PREVIOUS_ADDRESS)
        cluster.create_task_pod("gang", node="", group="g1-1")
        cluster.create_task_pod("unneeded", node="", role="ps")
        early = asyncio.create_task(cluster.allocator.enlist("waits", "process"))
        await asyncio.sleep(0)
        assert await cluster.start() == []
        cluster.allocator.set_demand("worker", 1)
        await wait_until(lambda: cluster.pods == ["am", "waits"])
        assert not cluster.events
        cluster.api.update(PODS, "waits", {"spec": {"nodeName": "n"}})
        await wait_until(lambda: [type(each) for each in cluster.events] == [Granted])
        await wait_until(lambda: cluster.allocator._table.pods["waits"].has_enlisted)
        early.cancel()


async def test_a_pod_without_a_node_that_is_deleted_meanwhile_is_created_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list of the next AM attempt still had it; its watch begins with that list."""
    async with open_cluster(tmp_path) as cluster:
        cluster.create_task_pod("late", node="")
        requests = cluster.allocator._requests
        find_pods = requests.list

        async def find_pods_late() -> ObjectList:
            found = await find_pods()
            cluster.api.remove(PODS, "late")
            return found

        monkeypatch.setattr(requests, "list", find_pods_late)
        await cluster.start()
        cluster.allocator.set_demand("worker", 1)
        await wait_until(lambda: len(cluster.pods) == 2)
        assert "late" not in cluster.pods


async def test_a_pod_that_no_am_attempt_knows_is_deleted(tmp_path: Path) -> None:
    """A request of the AM attempt before was carried out late."""
    async with open_cluster(tmp_path) as cluster:
        await cluster.start()
        cluster.create_task_pod("late")
        await wait_until(lambda: cluster.pods == ["am"])


async def test_pods_are_deleted_by_an_am_attempt_that_finds_its_job_ended(tmp_path: Path) -> None:
    """The AM attempt before died between the job's end and their deletion; this one recovers nothing."""
    async with open_cluster(tmp_path) as cluster:
        cluster.create_task_pod("left", am_address=PREVIOUS_ADDRESS)
        cluster.create_task_pod("waits", node="")
        await cluster.allocator.close()
        assert cluster.pods == ["am"]
        await cluster.allocator.open(cluster.events.append)
        assert cluster.events == []


async def test_known_pods_are_deleted_although_pods_cannot_be_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_cluster(tmp_path) as cluster:
        cluster.create_task_pod("known")

        async def refuse_list() -> ObjectList:
            raise SchedulerError("pods is forbidden")

        with monkeypatch.context() as patch:
            patch.setattr(cluster.allocator._requests, "list", refuse_list)
            with pytest.raises(SchedulerError):
                await cluster.start(build_known("known"))
            await cluster.allocator.close()
        assert cluster.pods == ["am"]


async def test_a_pod_that_came_and_went_unseen_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both came between a list and its answer."""
    monkeypatch.setattr(pod_requests, "_UNSEEN_SECONDS", 0.05)
    async with open_cluster(tmp_path) as cluster:
        unseen = [Answer(status=201)]
        cluster.on_create = lambda: unseen.pop() if unseen else None
        await cluster.start()
        cluster.allocator.set_demand("worker", 1)
        await wait_until(lambda: len(cluster.pods) == 2)


async def test_a_pod_is_kept_although_the_answer_to_its_creation_comes_late(tmp_path: Path) -> None:
    """Its executor was released, and has the time to exit that it was given."""
    async with open_cluster(tmp_path) as cluster:
        answered = threading.Event()
        answer = cluster.server.answer

        def answer_late(request: Request) -> Answer:
            found = answer(request)
            if request.method == "POST" and request.target == PODS:
                assert answered.wait(60)
            return found

        cluster.server.answer = answer_late
        await cluster.start()
        cluster.allocator.set_demand("worker", 1)
        await wait_until(lambda: len(cluster.pods) == 2)
        (name,) = set(cluster.pods) - {"am"}
        cluster.api.update(PODS, name, {"spec": {"nodeName": "n"}, "status": {"phase": "Running"}})
        await wait_until(lambda: cluster.find_events(Granted))
        cluster.allocator.set_demand("worker", 0)
        cluster.allocator._table.pods[name].is_used = cluster.allocator._table.pods[name].has_enlisted = True
        cluster.allocator.release(name, 60.0)
        answered.set()
        await wait_until(lambda: not cluster.allocator._tasks)
        assert name in cluster.pods
        cluster.api.remove(PODS, name)


async def test_a_pod_whose_executor_was_not_started_is_deleted_when_it_is_released(tmp_path: Path) -> None:
    """Such as one whose image is pulled: there is nothing that could exit by itself."""
    async with open_cluster(tmp_path) as cluster:
        for name in ("pulls", "runs"):
            cluster.create_task_pod(name)
        await cluster.start(build_known("pulls"), build_known("runs", executor_pid=1))
        for name in ("pulls", "runs"):
            cluster.allocator.release(name, 60.0)
        await wait_until(lambda: cluster.pods == ["am", "runs"])


async def test_a_deleted_pod_that_its_node_does_not_remove_may_still_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost node never removes it; the job waits for the lease of its executor only. So does the next AM attempt.

    If the node answers again, the job need not wait any longer.
    """
    monkeypatch.setattr(allocator, "_REMOVAL_SECONDS", 0.05)
    async with open_cluster(tmp_path) as cluster:
        cluster.api.on_pod = lambda pod: None  # there is no kubelet
        for name in ("deleted", "killed"):
            cluster.create_task_pod(name)
        deletion = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
        cluster.api.update(PODS, "deleted", {"metadata": deletion})
        await cluster.start(build_known("deleted", executor_pid=1), build_known("killed", executor_pid=1))
        cluster.allocator.kill("killed", "it is silent")
        await wait_until(lambda: len(cluster.find_events(ContainerEnded)) == 2)
        ends = cluster.find_events(ContainerEnded)
        assert {("its node n does not respond", True)} == {(each.cause, each.is_unconfirmed) for each in ends}
        cluster.api.update(PODS, "killed", {"status": FAILED})
        cluster.api.remove(PODS, "deleted")
        await wait_until(lambda: len(cluster.find_events(ContainerEnded)) == 4)
        ends = cluster.find_events(ContainerEnded)[2:]
        assert {each.container: each.is_unconfirmed for each in ends} == {"killed": False, "deleted": False}


@pytest.mark.parametrize(("believed_seconds", "is_failing"), [(60.0, False), (0.0, True)])
async def test_a_right_that_is_denied_for_a_moment_does_not_fail_the_job(
    believed_seconds: float, is_failing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API server that has just started does not know all roles yet; later it is believed."""
    monkeypatch.setattr(denials, "_BELIEVED_SECONDS", believed_seconds)
    text = 'pods is forbidden: User "system:serviceaccount:ml:tony" cannot create resource "pods" in API group ""'
    refusals = [refuse(403, "Forbidden", text)] * 2
    async with open_cluster(tmp_path) as cluster:
        cluster.on_create = lambda: refusals.pop() if refusals else None
        await cluster.start()
        cluster.allocator.set_demand("worker", 1)
        await wait_until(lambda: cluster.events if is_failing else len(cluster.pods) == 2)
        assert is_failing == bool(cluster.find_events(Unsatisfiable))


async def test_a_token_that_has_expired_does_not_fail_the_job(tmp_path: Path) -> None:
    """The kubelet writes another one soon."""
    refusals = [refuse(401, "Unauthorized", "expired")] * 3
    async with open_cluster(tmp_path) as cluster:
        cluster.on_create = lambda: refusals.pop() if refusals else None
        await cluster.start()
        cluster.allocator.set_demand("worker", 1)
        await wait_until(lambda: len(cluster.pods) == 2)
        assert not cluster.find_events(Unsatisfiable)


async def test_a_node_is_excluded_only_while_others_have_room(tmp_path: Path) -> None:
    """A pod prefers other nodes; if it gets the excluded one, no other can take it."""
    async with open_cluster(tmp_path) as cluster:
        await cluster.start()

        async def grant(count: int, node: str) -> None:
            known = set(cluster.pods)
            cluster.allocator.set_demand("worker", count)
            await wait_until(lambda: set(cluster.pods) > known)
            (name,) = set(cluster.pods) - known
            cluster.api.update(PODS, name, {"spec": {"nodeName": node}, "status": {"phase": "Running"}})
            await wait_until(lambda: len(cluster.find_events(Granted)) == count)

        await grant(1, "bad")
        cluster.allocator.exclude("bad")
        await grant(2, "good")
        await grant(3, "bad")
        found = [each for each in cluster.events if isinstance(each, Granted | Excluded)]
        words = [each.host if isinstance(each, Granted) else each.hosts for each in found]
        assert words == ["bad", ("bad",), "good", (), "bad"]


async def test_tokens_that_cannot_be_cancelled_do_not_change_the_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Job fails nevertheless, and the event loop does not wait for the DNS."""
    limits: list[int] = []
    async with open_cluster(tmp_path) as cluster:

        def cancel(*_: object) -> None:
            assert threading.current_thread() is not threading.main_thread()
            limits.append(cluster.client.get(resources.JOBS, "job-1")["spec"]["backoffLimit"])
            raise UserError("dfs.namenode.rpc-address.nn is required")

        monkeypatch.setattr(HadoopAccess, "cancel_fetched_tokens", cancel)
        summary = HadoopSummary(user="ann", settings={}, file_systems=(), is_fetched=True)
        cluster.allocator._tokens = AmTokens(HadoopAccess(summary, TokenCredentials()))
        await cluster.start()
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
