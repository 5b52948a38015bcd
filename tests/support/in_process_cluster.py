"""A cluster in this process: fake API server, kubelet and executors, and real application masters."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from tests.kube.api_faults import ApiFaults
from tests.kube.fake_api import FakeApi, Object
from tests.kube.scripted_server import Request, ScriptedServer
from tests.support.fake_executor import OK, FakeExecutor
from tony.am import main as am
from tony.client.credential_creation import make_credentials
from tony.errors import AttemptSupersededError, ConnectionFailedError, ProtocolError, TonyError
from tony.kube.api_client import ApiClient
from tony.kube.cluster_access import ClusterAccess
from tony.kube.errors import KubeError
from tony.model.codec import to_plain
from tony.model.job_spec import JobSpec
from tony.model.program_exit import ExitStatus
from tony.model.state_directory import build_segment_name
from tony.protocol.executor_messages import Assigned, Enlist, ProgramExited, Reported, StartProgram
from tony.protocol.hello import PeerKind
from tony.protocol.launch import AmCredentials, TaskLaunch, TaskPart
from tony.rpc.client_connection import connect
from tony.rpc.server import Handler, RpcServer
from tony.schedulers.allocator_interface import NOT_LISTENING, AmAddresses, Sink
from tony.schedulers.client_interface import PreparedJob
from tony.schedulers.job_store.config_map_job_store import ConfigMapJobStore
from tony.schedulers.kubernetes.allocator import KubernetesAllocator
from tony.schedulers.kubernetes.launch_payload import AmPayload
from tony.schedulers.kubernetes.manifests import find_am_address
from tony.testing.sample_jobs import build_prepared_job

JOBS = "/apis/batch/v1/namespaces/ml/jobs"
PODS = "/api/v1/namespaces/ml/pods"
JOB_ID = "test-1"
RUNTIME = "0" * 64
_AM_PREFIX = "am-"


class PodExecutor(FakeExecutor):
    """An executor that finds the current application master, as its address in a pod does."""

    def __init__(self, cluster: InProcessCluster, launch: TaskLaunch) -> None:
        super().__init__(launch.task, launch.credentials, cluster.on_start)
        self._cluster = cluster
        self.exits: dict[int, ProgramExited] = {}

    async def _converse(self) -> None:
        address = self._cluster.am_address
        if not address:
            await asyncio.sleep(0.005)
            return
        self.part = replace(self.part, am_address=address)
        with contextlib.suppress(ConnectionFailedError):
            await super()._converse()
        await asyncio.sleep(0.002)

    @property
    def acknowledged(self) -> int:
        """The number of its reports that the application master has taken."""
        return self._acked

    @property
    def running_try(self) -> tuple[int, int] | None:
        """Session and task attempt of its program, while that runs."""
        return self._running

    def report(self, message: Reported) -> None:
        super().report(message)
        if isinstance(message, ProgramExited):
            self.exits[self._n] = message


class _Allocator(KubernetesAllocator):
    """Listens on any port: several application masters may run on this machine at one time."""

    cluster: InProcessCluster

    @property
    def listen_port(self) -> int:
        return 0

    @property
    def listen_host(self) -> str:
        return "127.0.0.1"

    async def open(self, sink: Sink, addresses: AmAddresses = NOT_LISTENING) -> None:
        if not self._is_closing and self.attempt == self.cluster.attempts:
            self.cluster.am_address = addresses.am
        await super().open(sink, addresses)

    def stop(self) -> None:
        """End as a killed process does; requests on their way are carried out."""
        self._is_closing = True
        for task in [*self._tasks, self._am_pod_watch, self._publisher._work]:
            if task:
                task.cancel()
        if self._watch:
            self._watch.stop()
        if self._journal:
            self._journal._opening.cancel()
            if self._journal._log:
                self._journal._log.abandon()


@dataclass(slots=True)
class _Master:
    """The parts of an application master that a killed process closes."""

    allocator: _Allocator | None = None
    server: RecordedServer | None = None


class RecordedServer(RpcServer):
    """Is found by its application master."""

    def __init__(self, credentials: AmCredentials, handler: Handler) -> None:
        super().__init__(credentials, handler)
        _MASTER.get().server = self


_MASTER: ContextVar[_Master] = ContextVar("master")


class InProcessCluster:
    """One job.

    Attributes:
        executors: pod -> its executor, once it has its task; those that have ended, too.
        started: every program that was started: task, session and task attempt, pod.
        doubled: programs that were started while another one of the same task was running.
        url: of the API server.
        am_address: where the current application master listens; empty if there is none.
        attempts: AM attempts that were started.
        results: exit codes of those that have ended the job.
    """

    def __init__(self, folder: Path, spec: JobSpec, chance: Random, fault_rate: float) -> None:
        self._folder, self.spec, self._chance = folder, spec, chance
        self.api = FakeApi()
        self.api.optional = {"scheduling.k8s.io": {"v1alpha2": ("podgroups",)}}
        self.faults = ApiFaults(self.api, chance, fault_rate)
        self.credentials = make_credentials(tls=True)
        self.executors: dict[str, PodExecutor] = {}
        self.started: list[tuple[str, int, int, str]] = []
        self.doubled: list[str] = []
        self.url = self.am_address = ""
        self.attempts = 0
        self.results: list[int] = []
        self._kubelet: dict[str, asyncio.Task[None]] = {}
        self._masters: dict[asyncio.Task[int], _Master] = {}
        self._clients: list[ApiClient] = []
        self._closing: list[asyncio.Future[None]] = []
        self._wants_another = asyncio.Event()
        self.job = build_prepared_job(folder / "client", spec, job_id=JOB_ID)

    @contextlib.contextmanager
    def serve(self) -> Iterator[None]:
        """Run the API server until the context ends."""
        loop = asyncio.get_running_loop()
        with ScriptedServer().serve() as server:
            self.url = server.url

            def on_pod(pod: Object) -> None:
                loop.call_soon_threadsafe(self._on_pod, pod)

            self.api.on_pod = on_pod
            owner = {"metadata": {"name": JOB_ID, "labels": {}}, "spec": {}}
            self.api.answer(Request(method="POST", target=JOBS, headers={"Accept": ""}, body=owner))
            server.answer = self.faults.answer
            try:
                yield
            finally:
                self.api.close()
                for client in self._clients:
                    client.close()

    # --- application masters ------------------------------------------------------------------------------------------

    async def run(self) -> int:
        """Run application masters until one has ended the job; return its exit code."""
        current = self._start_master()
        while True:
            another = asyncio.ensure_future(self._wants_another.wait())
            await asyncio.wait({*self._masters, another}, return_when=asyncio.FIRST_COMPLETED)
            another.cancel()
            for task in [each for each in self._masters if each.done()]:
                master = self._masters.pop(task)
                if master.allocator:
                    master.allocator.stop()
                if task.cancelled() or isinstance(task.exception(), AttemptSupersededError):
                    if task is current:
                        current = self._start_master()
                    continue
                self.results.append(task.result())
            if self.results and not self._masters:
                await asyncio.gather(*self._closing)
                return self.results[0]
            if self._wants_another.is_set() and not self.results:
                self._wants_another.clear()
                current = self._start_master()

    def _start_master(self) -> asyncio.Task[int]:
        master = _Master()
        task = asyncio.ensure_future(self._run_master(master))
        self._masters[task] = master
        return task

    async def _run_master(self, master: _Master) -> int:
        _MASTER.set(master)
        client = ApiClient(ClusterAccess(server=self.url, namespace="ml"), give_up_seconds=0)
        self._clients.append(client)
        store = ConfigMapJobStore(client, JOB_ID, "uid-1")
        while True:
            try:
                attempt = await asyncio.to_thread(store.claim_attempt, build_segment_name)
                break
            except KubeError:
                await asyncio.sleep(0.005)
        self.attempts = max(self.attempts, attempt)
        pod = f"{_AM_PREFIX}{attempt}"
        self.api.objects[PODS, pod] = {"metadata": {"name": pod, "uid": pod}}
        job = build_prepared_job(self._folder / f"am-{attempt}", self.spec, job_id=JOB_ID)
        job = replace(job, record=replace(job.record, framework_module="tony.frameworks.no_framework:NoFramework"))
        job.folder.secret_job.write_text(json.dumps(to_plain(job.record)))
        job.folder.credentials.write_text(json.dumps(to_plain(self.credentials)))

        def create_allocator(loaded: PreparedJob) -> _Allocator:
            payload = AmPayload(
                record=loaded.record, credentials=self.credentials, runtime=RUNTIME, objects={RUNTIME: 1}, owner="uid-1"
            )
            made = _Allocator(loaded, payload, pod, "127.0.0.1", client, store, attempt)
            made.cluster = self
            master.allocator = made
            return made

        return await am.run_attempt(job.folder, create_allocator)

    def kill_master(self) -> None:
        """Kill the application master that was started last, as by SIGKILL."""
        self.am_address = ""
        for task, master in [*self._masters.items()][-1:]:
            if master.allocator:
                master.allocator.stop()
            if master.server:
                self._closing.append(asyncio.ensure_future(master.server.close()))
            task.cancel()
        self.break_connections()

    def start_another_master(self) -> None:
        """Start another application master while the last one runs, as when its pod was deleted by force."""
        self.am_address = ""
        for number in range(1, self.attempts + 1):
            self.api.objects.pop((PODS, f"{_AM_PREFIX}{number}"), None)
        self._wants_another.set()
        self.break_connections()

    # --- pods ---------------------------------------------------------------------------------------------------------

    def _on_pod(self, pod: Object) -> None:
        name = pod["metadata"]["name"]
        if pod["metadata"].get("deletionTimestamp"):
            self._stop(name)
            if self._chance.random() < 0.5:  # the kubelet reports how it ended before it removes the pod
                self.api.update(PODS, name, {"status": {"phase": "Failed", **build_exit(137)}})
            self.api.remove(PODS, name)
        elif name not in self._kubelet and name in self.list_pods():  # it has not ended before its first step
            self._kubelet[name] = asyncio.ensure_future(self._run_pod(name))

    async def _run_pod(self, name: str) -> None:
        await asyncio.sleep(self._chance.random() * 0.01)
        self.api.update(PODS, name, {"spec": {"nodeName": "node-1"}, "status": {"phase": "Pending"}})
        await asyncio.sleep(self._chance.random() * 0.01)
        self.api.update(PODS, name, {"status": {"phase": "Running"}})
        try:
            launch = await self._enlist(name)
            executor = PodExecutor(self, launch)
            self.executors[name] = executor
            await executor.run()
        except TonyError:
            self.api.update(PODS, name, {"status": {"phase": "Failed", **build_exit(1)}})
        else:
            self.api.update(PODS, name, {"status": {"phase": "Succeeded", **build_exit(0)}})

    async def _enlist(self, name: str) -> TaskLaunch:
        credentials: AmCredentials = self.credentials.executors
        address = find_am_address(self.api.objects[PODS, name])
        while True:
            try:
                if address == self.am_address:  # a later application master is another pod
                    connection = await connect(address, credentials, PeerKind.EXECUTOR)
                    connection.send(Enlist(container=name, process=name))
                    try:
                        if isinstance(answer := await connection.receive(), Assigned):
                            return answer.launch
                    finally:
                        connection.close()
            except ConnectionFailedError:
                pass
            except ProtocolError as error:
                if error.code == "stale":
                    raise
            await asyncio.sleep(0.005)

    def _stop(self, name: str) -> None:
        """Kill the processes of a pod."""
        if executor := self.executors.get(name):
            executor._running = None
            executor._released = executor.ended = True
            executor.break_connection()
        if task := self._kubelet.get(name):
            task.cancel()

    def end_pod(self, name: str, status: Object) -> None:
        """End a pod, whose object stays."""
        self._stop(name)
        self.api.update(PODS, name, {"status": {"phase": "Failed", **status}})

    def delete_pod(self, name: str) -> None:
        """Delete a pod, as a user does."""
        self.api.answer(Request(method="DELETE", target=f"{PODS}/{name}", headers={"Accept": ""}, body={}))

    def remove_pod(self, name: str) -> None:
        """Remove a pod and its object at once."""
        self._stop(name)
        self.api.remove(PODS, name)

    def list_pods(self) -> list[str]:
        """Return the pods of tasks that have not ended."""
        return [
            name
            for (path, name), pod in list(self.api.objects.items())
            if path == PODS
            and not name.startswith(_AM_PREFIX)
            and pod.get("status", {}).get("phase") not in ("Failed", "Succeeded")
        ]

    async def stop_pods(self) -> None:
        """Stop all pods, as the garbage collector does once the Job is deleted."""
        for task in self._kubelet.values():
            task.cancel()
        await asyncio.gather(*self._kubelet.values(), return_exceptions=True)

    # --- programs -----------------------------------------------------------------------------------------------------

    def on_start(self, part: TaskPart, message: StartProgram) -> ExitStatus | None:
        """Note that a program was started."""
        task = f"{part.role}:{part.index}"
        others = [
            name
            for name, each in self.executors.items()
            if each.runs and not each.ended and each.part.id == part.id and name != part.container
        ]
        self.doubled += [f"{task} in {part.container} and {name}" for name in others]
        self.started.append((task, message.session, message.try_, part.container))
        return None

    def find_running(self) -> list[PodExecutor]:
        """Return the executors whose programs run."""
        return [each for each in self.executors.values() if each.runs and not each.ended]

    def break_connections(self) -> None:
        """Break the connections of all executors."""
        for executor in self.executors.values():
            executor.break_connection()

    async def succeed(self) -> None:
        """Let every program succeed, until cancelled."""
        while True:
            for executor in self.find_running():
                executor.exit(OK)
            await asyncio.sleep(0.005)


def build_exit(code: int) -> Object:
    """Return the status of a pod whose executor has exited."""
    return {"containerStatuses": [{"name": "tony", "state": {"terminated": {"exitCode": code}}}]}
