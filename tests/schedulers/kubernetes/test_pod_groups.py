"""Gangs of the scheduler of Kubernetes: their PodGroups, and pods that start together or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kube.fake_api import FakeApi, Object, refuse
from tests.kube.fake_gang_scheduler import NO_ROOM, FakeGangScheduler
from tests.kube.scripted_server import Answer, Request, ScriptedServer
from tests.schedulers.kubernetes.fake_cluster import JOBS, PODS, build_payload
from tests.support.waiting import wait_until
from tony.core.events import Event, Granted, Queued, Unsatisfiable
from tony.kube.api_client import ApiClient
from tony.kube.cluster_access import ClusterAccess
from tony.model.job_spec import MIB, JobSpec, Resources, Role
from tony.model.setting_choices import RoleKind
from tony.schedulers.allocator_interface import KnownContainer
from tony.schedulers.job_store.config_map_job_store import ConfigMapJobStore
from tony.schedulers.kubernetes import pod_groups
from tony.schedulers.kubernetes.allocator import KubernetesAllocator
from tony.testing.sample_jobs import build_prepared_job

GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/ml/podgroups"
SERVED = {"scheduling.k8s.io": {"v1": ("priorityclasses",), "v1alpha2": ("podgroups", "workloads")}}


class _Cluster:
    """A fake API server with a scheduler that has some slots, and allocators of jobs.

    Attributes:
        refuses_groups: no PodGroup may be created.
    """

    def __init__(self, folder: Path, server: ScriptedServer, slots: int) -> None:
        self.folder, self.server = folder, server
        self.api = FakeApi()
        self.scheduler = FakeGangScheduler(self.api, PODS, slots)
        self.jobs: list[_Job] = []
        self.refuses_groups = False
        server.answer = self.answer

    def answer(self, request: Request) -> Answer:
        if self.refuses_groups and request.method == "POST" and request.target == GROUPS:
            return refuse(403, "Forbidden", "podgroups is forbidden")
        found = self.api.answer(request)
        if request.method in ("POST", "DELETE") and request.target.startswith((PODS, GROUPS)):
            self.scheduler.run()
        return found

    async def start(
        self, name: str, spec: JobSpec, attempt: int = 1, gang: str = "", known: Sequence[KnownContainer] = ()
    ) -> _Job:
        job = _Job(self, name, spec, attempt, gang)
        self.jobs.append(job)
        await job.allocator.open(job.events.append)
        assert len(await job.allocator.recover(known)) == len(known)
        return job

    def list_groups(self) -> list[Object]:
        return [found for (path, _), found in sorted(self.api.objects.items()) if path == GROUPS]


class _Job:
    """The allocator of an AM attempt, and its events."""

    def __init__(self, cluster: _Cluster, name: str, spec: JobSpec, attempt: int, gang: str) -> None:
        self.name, self.cluster, self.events = name, cluster, list[Event]()
        full = replace(spec, scheduler="kubernetes", scheduler_settings={"image": "python:3.12", "gang": gang})
        job = build_prepared_job(cluster.folder / f"{name}-{attempt}", full, job_id=name)
        payload = build_payload(job.record, f"uid-of-{name}")
        self.client = ApiClient(ClusterAccess(server=cluster.server.url, namespace="ml"), give_up_seconds=0)
        store = ConfigMapJobStore(self.client, name, payload.owner)
        self.am_pod = f"{name}-am-{attempt}"
        cluster.api.objects[JOBS, name] = {"metadata": {"name": name}, "spec": {}}
        cluster.api.objects[PODS, self.am_pod] = {"metadata": {"name": self.am_pod}}
        self.allocator = KubernetesAllocator(job, payload, self.am_pod, "127.0.0.1", self.client, store, attempt)

    @property
    def pods(self) -> list[Object]:
        """Its pods that have not ended."""
        found = [pod for (path, _), pod in sorted(self.cluster.api.objects.items()) if path == PODS and "spec" in pod]
        return [pod for pod in found if pod["metadata"]["name"].startswith(f"{self.name}-")]

    @property
    def granted(self) -> list[Granted]:
        return [event for event in self.events if isinstance(event, Granted)]

    def list_group_names(self) -> set[str]:
        return {str((pod["spec"].get("schedulingGroup") or {}).get("podGroupName", "")) for pod in self.pods}

    async def close(self) -> None:
        await self.allocator.close()
        self.client.close()


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_groups, "_BACKOFF", [0.01] * 100)


@asynccontextmanager
async def open_cluster(folder: Path, slots: int, *, has_groups: bool = True) -> AsyncIterator[_Cluster]:
    with ScriptedServer().serve() as server:
        made = _Cluster(folder, server, slots)
        made.api.optional = SERVED if has_groups else {}
        try:
            yield made
            names = {f"{job.name}.job.json" for job in made.jobs}
            await wait_until(lambda: names <= set(made.api.list_names("configmaps")))
        finally:
            for job in made.jobs:
                await job.close()
            made.api.close()


def build_spec(**roles: Role) -> JobSpec:
    resources = Resources(memory=16 * MIB)
    return JobSpec(
        name="gang", command="true", roles={name: replace(role, resources=resources) for name, role in roles.items()}
    )


THREE = build_spec(worker=Role(instances=3))


async def test_two_jobs_that_do_not_both_fit_run_one_after_the_other(tmp_path: Path) -> None:
    async with open_cluster(tmp_path, slots=4) as cluster:
        jobs = [await cluster.start(name, THREE) for name in ("one", "two")]
        for job in jobs:
            job.allocator.set_demand("worker", 3)
        await wait_until(lambda: any(len(job.granted) == 3 for job in jobs))
        first, second = sorted(jobs, key=lambda job: -len(job.granted))
        await wait_until(lambda: Queued(reason=NO_ROOM) in second.events)
        assert second.granted == []
        await first.allocator.close()
        cluster.scheduler.run()
        await wait_until(lambda: len(second.granted) == 3)
        assert {event.reason for event in second.events if isinstance(event, Queued)} == {NO_ROOM, ""}


async def test_a_job_that_needs_no_more_pods_waits_for_nothing(tmp_path: Path) -> None:
    async with open_cluster(tmp_path, slots=2) as cluster:
        job = await cluster.start("one", THREE)
        job.allocator.set_demand("worker", 3)
        await wait_until(lambda: job.events == [Queued(reason=NO_ROOM)])
        job.allocator.set_demand("worker", 0)
        await wait_until(lambda: job.events[1:] == [Queued(reason="")])


async def test_roles_that_are_requested_together_are_one_gang_and_its_group_goes_with_its_pods(tmp_path: Path) -> None:
    spec = build_spec(ps=Role(), worker=Role(instances=2), board=Role(kind=RoleKind.SIDECAR))
    async with open_cluster(tmp_path, slots=9) as cluster:
        job = await cluster.start("one", spec)
        for name, role in spec.roles.items():
            job.allocator.set_demand(name, role.instances)
        await wait_until(lambda: len(job.granted) == 4)
        (group,) = cluster.list_groups()
        assert group["spec"] == {"schedulingPolicy": {"gang": {"minCount": 3}}}
        assert group["metadata"]["ownerReferences"][0]["uid"] == "uid-of-one"
        assert job.list_group_names() == {"", group["metadata"]["name"]}
        await job.allocator.close()
        assert cluster.list_groups() == []


async def test_an_elastic_gang_starts_with_its_minimum(tmp_path: Path) -> None:
    async with open_cluster(tmp_path, slots=3) as cluster:
        job = await cluster.start("one", build_spec(worker=Role(instances=4, min_instances=2)))
        job.allocator.set_demand("worker", 4)
        await wait_until(lambda: len(job.granted) == 3 and Queued(reason=NO_ROOM) in job.events)
        assert [each["spec"]["schedulingPolicy"]["gang"]["minCount"] for each in cluster.list_groups()] == [2]


@pytest.mark.parametrize("is_recovered", [False, True])
async def test_a_pod_that_replaces_another_joins_its_gang(tmp_path: Path, *, is_recovered: bool) -> None:
    """Also if an earlier AM attempt has created the gang."""
    async with open_cluster(tmp_path, slots=3) as cluster:
        job = await cluster.start("one", THREE)
        job.allocator.set_demand("worker", 3)
        await wait_until(lambda: len(job.granted) == 3)
        if is_recovered:
            known = [KnownContainer(id=each.container, role="worker", host=each.host) for each in job.granted]
            job = await cluster.start("one", THREE, attempt=2, known=known)
            job.allocator.set_demand("worker", 3)
        lost = job.pods[0]["metadata"]["name"]
        cluster.api.update(PODS, lost, {"status": {"phase": "Failed"}})
        await wait_until(lambda: len(job.pods) == 4)
        assert len(job.list_group_names()) == len(cluster.list_groups()) == 1
        cluster.jobs = [job]


async def test_a_gang_that_was_released_is_requested_as_another_one(tmp_path: Path) -> None:
    async with open_cluster(tmp_path, slots=3) as cluster:
        job = await cluster.start("one", THREE)
        job.allocator.set_demand("worker", 3)
        await wait_until(lambda: len(job.granted) == 3)
        before = job.list_group_names()
        job.allocator.set_demand("worker", 0)
        for each in job.granted:
            job.allocator.release(each.container, 1.0)
        job.allocator.set_demand("worker", 3)
        await wait_until(lambda: len(job.granted) == 6)
        assert job.list_group_names().isdisjoint(before)
        await wait_until(lambda: len(cluster.list_groups()) == 1)


@pytest.mark.parametrize(
    ("gang", "has_groups", "is_refused"), [("", False, False), ("", True, True), ("none", True, False)]
)
async def test_without_pod_groups_pods_start_one_by_one(
    tmp_path: Path, gang: str, *, has_groups: bool, is_refused: bool
) -> None:
    """The cluster has none, the AM may not create them, or the job says so."""
    async with open_cluster(tmp_path, slots=2, has_groups=has_groups) as cluster:
        cluster.refuses_groups = is_refused
        job = await cluster.start("one", THREE, gang=gang)
        job.allocator.set_demand("worker", 3)
        await wait_until(lambda: len(job.granted) == 2 and len(job.pods) == 3)
        assert job.list_group_names() == {""}


@pytest.mark.parametrize(("has_groups", "reason"), [(False, "the cluster has no PodGroup"), (True, "forbidden")])
async def test_a_job_that_needs_pod_groups_says_why_it_cannot_run(
    tmp_path: Path, reason: str, *, has_groups: bool
) -> None:
    async with open_cluster(tmp_path, slots=3, has_groups=has_groups) as cluster:
        cluster.refuses_groups = True
        job = await cluster.start("one", THREE, gang="native")
        job.allocator.set_demand("worker", 3)
        await wait_until(lambda: any(isinstance(event, Unsatisfiable) for event in job.events))
        (event,) = {event for event in job.events if isinstance(event, Unsatisfiable)}
        assert reason in event.reason
        job.allocator.set_demand("worker", 0)
        assert job.pods == []
        assert not job.allocator._enlisting
