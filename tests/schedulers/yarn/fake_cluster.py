"""A source on a fake cluster: ResourceManager, two nodes and a file system, all in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TypeVar

from tests.schedulers.yarn.samples import uploaded
from tests.support.hadoop.fake_node_manager import FakeNodeManager
from tests.support.hadoop.fake_resource_manager import FakeResourceManager
from tests.support.hadoop.fake_webhdfs import FakeWebHdfs
from tests.support.hadoop.ipc_server import FakeIpcServer
from tests.support.waiting import wait_until
from tony.core.events import ContainerEnded, Event, Granted
from tony.hadoop.hdfs.append_log import AppendLog
from tony.hadoop.ids import parse_container_id
from tony.hadoop.tokens import TokenCredentials, from_bytes
from tony.hadoop.wire.application_client import (
    GET_APPLICATION_REPORT,
    ApplicationReport,
    ApplicationState,
    GetApplicationReportResponse,
)
from tony.hadoop.wire.rpc import Token
from tony.hadoop.wire.yarn_records import ContainerId, NodeId
from tony.model.job_spec import JobSpec
from tony.protocol.launch import JobCredentials, TaskLaunch
from tony.schedulers.allocator_interface import AmAddresses
from tony.schedulers.client_interface import PreparedJob
from tony.schedulers.yarn.allocation.allocator import YarnAllocator
from tony.schedulers.yarn.containers import ContainerEnv
from tony.schedulers.yarn.launch_payload import RUNTIME, TASK, JobPayload, decode_payload
from tony.testing.sample_jobs import build_credentials, build_prepared_job, build_task_part, build_two_roles

JOB = "application_1410901177871_0001"
ADDRESSES = AmAddresses(am="tls:127.0.0.1:4711")
FOLDER = f"/user/ann/.tony/jobs/{JOB}"
HDFS_TOKEN = Token(identifier=b"ann", password=b"hdfs", kind="HDFS_DELEGATION_TOKEN", service="127.0.0.1:8020")
EventT = TypeVar("EventT", bound=Event)


class FakeCluster:
    """The source, the cluster around it, and what the source has told.

    Attributes:
        timeout: seconds for which the source looks for its ResourceManager; set before `source` is made.
        reports: what clients are told of the application, one look after the other; the last one for ever.
    """

    def __init__(
        self, folder: Path, room: Mapping[str, int], job: PreparedJob, attempt: int, node_count: int, epoch: int
    ) -> None:
        self.manager = FakeResourceManager()
        self.clients_door = FakeIpcServer()
        self.clients_door.on(GET_APPLICATION_REPORT, self._report)
        self.reports = [ApplicationReport(state=ApplicationState.KILLED)]
        self.nodes = [FakeNodeManager(self.manager.node_tokens, self.ends) for _ in range(2)]
        self.files = FakeWebHdfs()
        self.job = job
        self.spec: JobSpec = job.record.spec
        self.job_id = job.record.job_id
        self.events: list[Event] = []
        self._folder, self._room, self._attempt = folder, room, attempt
        self._node_count, self._epoch = node_count, epoch
        self.source: YarnAllocator

    def make(self) -> None:
        self.manager.nodes = tuple(node.node for node in self.nodes)
        self.source = YarnAllocator(self.job, self._payload(), self._container_env())

    async def open(self) -> None:
        """Connect the source, for an application master that listens."""
        await self.source.open(self.events.append, ADDRESSES)

    def ends(self, container: ContainerId, status: int) -> None:
        self.manager.complete(container, status)

    async def until(self, condition: Callable[[], object]) -> None:
        """Waits; the test's own limit is the ceiling."""
        await wait_until(condition)

    async def granted(self, role: str = "worker", number: int = 1) -> list[str]:
        self.source.set_demand(role, number)
        await self.until(lambda: len(self.of(Granted)) >= number)
        return [event.container for event in self.events if isinstance(event, Granted)]

    async def launched(self, number: int = 1) -> list[str]:
        """Containers of workers with executors in them."""
        containers = await self.granted("worker", number)
        for index, container in enumerate(containers):
            await self.launch(container, index)
        return containers

    async def launch(self, container: str, index: int = 0) -> None:
        await self.source.launch(container, build_task_part(self.spec, self.job_id, container, "worker", index), SECRET)

    def of(self, kind: type[EventT]) -> list[EventT]:
        return [event for event in self.events if isinstance(event, kind)]

    def causes(self) -> list[str]:
        """Why containers ended, as far as it was told."""
        return [event.cause for event in self.events if isinstance(event, ContainerEnded)]

    def running(self) -> list[str]:
        return sorted(name for node in self.nodes for name in node.running)

    def node(self, container: str) -> FakeNodeManager:
        place: NodeId | None = self.manager.live[parse_container_id(container)].node
        return next(node for node in self.nodes if node.node == place)

    def tokens_of(self, container: str) -> TokenCredentials:
        """What the executor in a container finds in its token file."""
        found = next(node.running[container] for node in self.nodes if container in node.running)
        assert found.tokens is not None
        return from_bytes(found.tokens)

    def payload_of(self, container: str) -> TaskLaunch:
        return decode_payload(TaskLaunch, self.tokens_of(container).secrets[TASK])

    def _report(self, _: object, _incoming: object) -> GetApplicationReportResponse:
        report = self.reports.pop(0) if len(self.reports) > 1 else self.reports[0]
        return GetApplicationReportResponse(report=report)

    def log(self, content: bytes = b"", attempt: int = 1) -> list[int]:
        """Has an event log with a header begun; how many bytes of it were said to be in safety, one after the other."""
        said: list[int] = []
        self.job.folder.events(attempt).write_bytes(content)
        assert self.source.journal(self.job.folder.events(attempt), said.append)
        return said

    def wrote(self, data: bytes, *, urgent: bool = False, attempt: int = 1) -> int:
        """The log has so much more; answers how long it is."""
        with self.job.folder.events(attempt).open("ab") as file:
            file.write(data)
            size = file.tell()
        journal = self.source._journal
        assert journal
        journal.note_written(size, urgent=urgent)
        return size

    def file(self, name: str) -> bytes | None:
        """A file of the job's record in HDFS."""
        found = self.files.files.get(f"{FOLDER}/{name}")
        return found.content if found else None

    def _payload(self) -> JobPayload:
        address, web = self.manager.server.address, f"127.0.0.1:{self.files.port}"
        return JobPayload(
            record=self.job.record,
            credentials=JobCredentials(am=build_credentials(), executors=build_credentials()),
            archives={RUNTIME: uploaded("runtime.zip", public=True)},
            objects={},
            configuration={
                "fs.defaultFS": "hdfs://127.0.0.1:8020",
                "dfs.namenode.http-address": web,
                "yarn.resourcemanager.scheduler.address": f"{address.host}:{address.port}",
                "yarn.resourcemanager.address": str(self.clients_door.address),
                "yarn.resourcemanager.connect.max-wait.ms": "300",
                "yarn.client.failover-sleep-base-ms": "10",
                "yarn.client.failover-sleep-max-ms": "20",
            },
            folder=FOLDER,
            user="ann",
            node_count=self._node_count,
            suitable_nodes=self._room,
        )

    def _container_env(self) -> ContainerEnv:
        token = self.manager.token
        epoch = f"e{self._epoch:02}_" if self._epoch else ""
        return ContainerEnv(
            container=f"container_{epoch}1410901177871_0001_{self._attempt:02}_000001",
            host="127.0.0.1",
            folder=self._folder,
            logs=self._folder,
            shared=self._folder / "shared",
            tokens=self._folder / "container_tokens",
            credentials=TokenCredentials(tokens={"am": token, "hdfs": HDFS_TOKEN}, secrets={"own": b"key"}),
        )


SECRET = build_credentials()


async def hang_up(source: YarnAllocator) -> None:
    """What the end of the process does: nothing more goes to HDFS."""
    journal, publisher = source._journal, source._publisher
    if publisher._work:
        publisher._work.cancel()
    if publisher._first_files:
        await asyncio.wait([publisher._first_files])
    if journal:
        await asyncio.wait([journal._opening], timeout=1.0)
        if isinstance(journal._log, AppendLog):
            journal._log.abandon()
            journal._log._thread.join()
    source._store.close()


@asynccontextmanager
async def start_fake_cluster(
    folder: Path,
    *,
    attempt: int = 1,
    opens: bool = True,
    spec: JobSpec | None = None,
    room: Mapping[str, int] | None = None,
    node_count: int = 0,
    epoch: int = 0,
) -> AsyncIterator[FakeCluster]:
    """A cluster, and an allocator on it for a job, else for `build_two_roles`. It is closed afterwards."""
    job = build_prepared_job(folder / "home", spec or build_two_roles(), JOB)
    cluster = FakeCluster(folder, room or {}, job, attempt, node_count, epoch)
    async with AsyncExitStack() as stack:
        stack.enter_context(cluster.files)
        for server in (cluster.manager.server, cluster.clients_door, *(node.server for node in cluster.nodes)):
            await stack.enter_async_context(server)
        cluster.make()
        if opens:
            await cluster.open()
        yield cluster
        await cluster.source.close()
        await hang_up(cluster.source)
