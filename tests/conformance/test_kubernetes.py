"""Kubernetes keeps to the contract of container allocators, on a fake API server and kubelet."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.kube.fake_api import FakeApi, Object
from tests.kube.scripted_server import ScriptedServer
from tests.schedulers.kubernetes.fake_cluster import PODS, build_payload
from tony.errors import SchedulerError
from tony.kube.api_client import ApiClient
from tony.kube.cluster_access import ClusterAccess
from tony.model.log_file_tail import LogFileTail
from tony.model.state_directory import build_segment_name
from tony.protocol.launch import AmCredentials, TaskLaunch, TaskPart
from tony.schedulers.allocator_interface import ContainerAllocator
from tony.schedulers.job_store.config_map_job_store import ConfigMapJobStore
from tony.schedulers.job_store.output_store import read_tails
from tony.schedulers.kubernetes.allocator import KubernetesAllocator
from tony.testing import allocator_bench, conformance, container_faults
from tony.testing.sample_jobs import build_prepared_job, build_two_roles

AM_POD = "am-pod"
FAULTS = (
    container_faults.SlowContainer,
    container_faults.LostContainer,
    container_faults.SilentExecutor,
    container_faults.ContainerExitsBeforeRegistering,
)
#: A cluster may grow: a pod that no node can hold waits, with the scheduler's words.
_NEVER_IMPOSSIBLE = "impossible_demand_is_refused"


class KubernetesBench(allocator_bench.Bench):
    """One job on a fake cluster; executors are coroutines that enlist."""

    def __init__(
        self, folder: Path, server: ScriptedServer, api: FakeApi, faults: Sequence[container_faults.Fault]
    ) -> None:
        self.api, self._server, self._loop = api, server, asyncio.get_running_loop()
        self.spec = replace(build_two_roles(), scheduler="kubernetes", scheduler_settings={"image": "python:3.12"})
        self.job = build_prepared_job(folder / "home", self.spec)
        self.job_id = self.job.folder.job_id
        self.launches: dict[str, TaskLaunch] = {}
        self.executors: dict[str, asyncio.Task[None]] = {}
        self.clients: list[ApiClient] = []
        self._waiting: list[Object] = []
        self._faults = {type(fault): fault for fault in faults}
        api.objects[PODS, AM_POD] = {"metadata": {"name": AM_POD}, "status": {"phase": "Succeeded"}}
        api.on_pod = self._note_pod
        self.source = self._create_allocator()

    def _create_allocator(self) -> KubernetesAllocator:
        self.clients.append(ApiClient(ClusterAccess(server=self._server.url, namespace="ml")))
        payload = build_payload(self.job.record)
        client = self.clients[-1]
        store = ConfigMapJobStore(client, self.job_id)
        attempt = store.claim_attempt(build_segment_name)
        return KubernetesAllocator(self.job, payload, AM_POD, "127.0.0.1", client, store, attempt)

    def _note_pod(self, pod: Object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._on_pod, pod)

    # --- the kubelet --------------------------------------------------------------------------------------------------

    def _on_pod(self, pod: Object) -> None:
        name = pod["metadata"]["name"]
        if pod["metadata"].get("deletionTimestamp"):
            self._stop(name)
            self.api.remove(PODS, name)
        elif container_faults.SlowContainer in self._faults:
            self._waiting.append(pod)
            condition = {
                "type": "PodScheduled",
                "status": "False",
                "message": "0/1 nodes are available: Insufficient cpu",
            }
            self.api.update(PODS, name, {"status": {"phase": "Pending", "conditions": [condition]}})
        else:
            self._run(name)

    def _run(self, name: str) -> None:
        self.api.update(PODS, name, {"spec": {"nodeName": "node-1"}, "status": {"phase": "Running"}})
        if container_faults.SilentExecutor not in self._faults:
            self.executors[name] = self._loop.create_task(self._enlist(name))

    async def _enlist(self, name: str) -> None:
        with contextlib.suppress(SchedulerError):
            self.launches[name] = await self.source.enlist(name, f"process of {name}")
            match next(iter(self._faults.values()), None):
                case container_faults.LostContainer(delay=delay):
                    self._faults.clear()
                    disruption = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
                    self._loop.call_later(delay, self._end, name, {"conditions": [disruption]})
                case container_faults.ContainerExitsBeforeRegistering(exit_code=code):
                    self._faults.clear()
                    self._end(name, _build_exit(code))

    def _stop(self, name: str) -> None:
        if task := self.executors.pop(name, None):
            task.cancel()

    def _end(self, name: str, status: Object) -> None:
        self._stop(name)
        self.api.update(PODS, name, {"status": {"phase": "Failed", **status}})

    # --- seen from outside --------------------------------------------------------------------------------------------

    def make_room(self) -> None:
        self._faults.clear()
        pods, self._waiting = self._waiting, []
        for pod in pods:
            self._run(pod["metadata"]["name"])
        for (_, name), pod in list(self.api.objects.items()):
            if pod.get("spec", {}).get("nodeName") and name not in self.executors and name not in self.launches:
                self.executors[name] = self._loop.create_task(self._enlist(name))

    async def start_next_attempt(self) -> ContainerAllocator:
        self.source = self._create_allocator()
        return self.source

    async def fetch_payload(self, container: str) -> tuple[TaskPart, AmCredentials]:
        async with asyncio.timeout(allocator_bench.TIMEOUT_SECONDS):
            while container not in self.launches:
                await asyncio.sleep(0.002)
        return self.launches[container].task, self.launches[container].credentials

    async def is_alive(self, container: str) -> bool:
        pod = self.api.objects.get((PODS, container))
        return pod is not None and pod.get("status", {}).get("phase") == "Running"

    async def end_executor(self, container: str) -> None:
        self._end(container, _build_exit(0))

    async def crash_executor(self, container: str) -> None:
        self._end(container, _build_exit(137))

    async def read_visible_data(self, container: str) -> str:
        return str(self.api.objects[PODS, container])

    async def list_leftovers(self) -> Sequence[str]:
        return [name for (path, name), pod in self.api.objects.items() if path == PODS and not _has_ended(pod)]


def _build_exit(code: int) -> Object:
    return {"containerStatuses": [{"name": "tony", "state": {"terminated": {"exitCode": code}}}]}


def _has_ended(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") in ("Failed", "Succeeded")


@asynccontextmanager
async def bench(folder: Path, faults: Sequence[container_faults.Fault]) -> AsyncIterator[KubernetesBench]:
    api = FakeApi()
    with ScriptedServer().serve() as server:
        server.answer = api.answer
        made = KubernetesBench(folder, server, api, faults)
        try:
            yield made
        finally:
            await made.source.close()
            api.close()
            for client in made.clients:
                client.close()


async def test_the_output_that_two_am_attempts_have_received_is_kept(tmp_path: Path) -> None:
    names = [f"worker-{index}.s1.t1.out" for index in range(2)]
    async with bench(tmp_path, ()) as job:
        assert job.source.output_limit
        await job.source.store_output([LogFileTail(name=names[0], offset=0, data=b"x")])
        later = await job.start_next_attempt()
        await later.store_output([LogFileTail(name=names[1], offset=0, data=b"x")])
        found = await asyncio.to_thread(read_tails, ConfigMapJobStore(job.clients[0], job.job_id))
        assert [each.name for each in found] == names


@pytest.mark.parametrize("clause", [each for each in conformance.clauses(FAULTS) if each != _NEVER_IMPOSSIBLE])
def test_contract(clause: str, tmp_path: Path) -> None:
    """Each clause holds; its docstring says which it is."""
    asyncio.run(conformance.check(clause, partial(bench, tmp_path)))
    assert threading.active_count() < 50
