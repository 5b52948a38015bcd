"""The application master's half: asks YARN for containers, and has an executor started in each.

The heartbeat to the ResourceManager is a task of its own. What it brings goes to `demand`, which knows how many are
still to come, and to `containers`, which has each until its end.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from tony.core.events import Event, UserCommand
from tony.dataclass import replace
from tony.errors import AttemptLost, InfraError, SchedulerError, SchedulerLost
from tony.hadoop import ids
from tony.hadoop.configuration import Configuration
from tony.hadoop.configuration.daemons import resource_managers
from tony.hadoop.ipc.errors import HadoopError
from tony.hadoop.logins import protections
from tony.hadoop.tokens.credentials import Credentials as Tokens
from tony.hadoop.tokens.selection import AM_RM, select
from tony.hadoop.wire.records import Container, ContainerLaunchContext, FinalStatus
from tony.hadoop.yarn.asks import News
from tony.hadoop.yarn.master_client import AttemptOver, MasterClient, scheduler_proxy
from tony.hadoop.yarn.node_client import NodeClients
from tony.model.report import JobReport
from tony.model.staged import StagedRole
from tony.model.states import JobState
from tony.protocol.launch import Credentials, TaskPart
from tony.schedulers.base import ContainerSource, KnownContainer, PageDoor, PreparedJob, Sink
from tony.schedulers.yarn.asking import ask_of
from tony.schedulers.yarn.capabilities import CAPABILITIES
from tony.schedulers.yarn.cluster import Cluster
from tony.schedulers.yarn.constraints import placed
from tony.schedulers.yarn.containers import Containers
from tony.schedulers.yarn.contexts import gpus, task_container
from tony.schedulers.yarn.demand import Demand
from tony.schedulers.yarn.inside import Inside
from tony.schedulers.yarn.last_word import who_ended_it
from tony.schedulers.yarn.papers import TASK, JobPapers, TaskPapers, packed
from tony.schedulers.yarn.publisher import Publisher
from tony.schedulers.yarn.settings import ENVIRONMENT, OWN_PYTHON, read_settings
from tony.schedulers.yarn.tokens import for_programs
from tony.schedulers.yarn.unfit_nodes import UnfitNodes

_log = logging.getLogger(__name__)


class YarnSource(ContainerSource):
    """Containers of a YARN cluster, for the application master that runs in one of them.

    Args:
        papers: what the client sent.
        inside: our own container.
    """

    capabilities = CAPABILITIES

    def __init__(self, job: PreparedJob, papers: JobPapers, inside: Inside) -> None:
        self._job = job
        self._papers = papers
        self._inside = inside
        self._spec = job.record.spec
        self._settings, _ = read_settings(self._spec.scheduler_settings)
        self._configuration = Configuration.load(None, {}, given=papers.configuration)
        self._tokens = for_programs(inside.credentials)
        self._sink: Sink | None = None
        self._master: MasterClient | None = None
        self._containers: Containers | None = None
        self._demand: Demand | None = None
        self._beating: asyncio.Task[None] | None = None
        self._publisher: Publisher | None = None

    @property
    def host(self) -> str:
        return self._inside.host

    def page_door(self) -> PageDoor | None:
        """YARN's web proxy: a program of its own, or a part of each ResourceManager."""
        own = self._configuration.get_address("yarn.web-proxy.address", 0)
        daemons = resource_managers(self._configuration)
        hosts = [own.host] if own else [daemon.web.host for daemon in daemons if daemon.web]
        web = own or next((daemon.web for daemon in daemons if daemon.web), None)
        peers = {str(found[4][0]) for name in hosts for found in _looked_up(name)}
        proxy = f"{daemons[0].web_scheme}://{web}/proxy/{self._job.record.job_id}/" if web else ""
        return PageDoor(peers=tuple(sorted(peers)), proxy=proxy) if peers else None

    # --- the ResourceManager ----------------------------------------------------------------------------------------

    async def open(self, sink: Sink) -> None:
        if self._sink:
            return
        self._sink = sink
        configuration = self._configuration
        token = select(self._inside.credentials, AM_RM)
        if token is None:
            raise SchedulerError(f"{self._inside.tokens} holds no token for the ResourceManager")
        wanted = protections(configuration)
        master = MasterClient(scheduler_proxy(configuration, token, protections=wanted), protections=wanted)
        self._master = master
        nodes = NodeClients(master.node_tokens, protections=wanted)
        # What is shipped, or comes with the job, is the same everywhere.
        room = {} if self._settings.python in (OWN_PYTHON, ENVIRONMENT) else self._papers.room
        unfit = UnfitNodes(room, leave_out=master.exclude, tell=self._emit)
        containers = self._containers = Containers(
            master, nodes, tell=self._emit, ended=self._one_less, unfit=unfit.found
        )
        host, _, port = self.master_address.removeprefix("tls:").rpartition(
            ":"
        )  # empty: nobody listens, and never will
        page = f"http://{self.page_address}/" if self.page_address else ""
        registration = await master.register(host, int(port or -1), page)
        self._demand = Demand(
            {role: ask_of(self._spec, role, self._settings, self._papers.nodes) for role in self._spec.effective_roles},
            master,
            registration,
            placed=placed(self._spec, self._settings),
            queue=self._settings.queue,
            there=containers.count,
            left_out=lambda: unfit.hosts,
            tell=self._emit,
        )
        self._beating = asyncio.get_running_loop().create_task(self._beat(master))
        self._beating.add_done_callback(lambda _: containers.left_alone())
        cluster = Cluster.of(configuration, {"HADOOP_USER_NAME": self._papers.user}, self._inside.credentials)
        own_log = self._inside.logs / "stderr"
        self._publisher = Publisher(
            cluster.web_files,
            self._papers,
            self._job.folder,
            own_log,
            recover=cluster.recover_lease,
            listens=self._listens(),
        )
        if self._inside.attempt > 1:
            raise AttemptLost(
                f"the application master of attempt {self._inside.attempt - 1} was lost, and the job with it: YARN has "
                "ended its containers, and a job does not begin anew by itself. Submit it again"
            )
        self._publisher.start()

    def _listens(self) -> Mapping[str, object] | None:
        """What the ResourceManager tells clients of us, for when there is none."""
        if not self.master_address:
            return None
        return {"pid": 0, "host": self.host, "attempt": self._inside.attempt, "address": self.master_address}

    async def _beat(self, master: MasterClient) -> None:
        try:
            await master.run(self._heard)
        except AttemptOver as error:
            _log.error("%s", error)
            why = await who_ended_it(error, self._configuration, self._papers, self._inside)
            self._emit(UserCommand(actor=f"YARN: {why}", what="kill-now"))
        except HadoopError as error:
            raise SchedulerLost(f"the ResourceManager is lost: {error}") from error

    async def watch(self) -> None:
        if self._beating:
            await asyncio.shield(self._beating)

    async def recover(self, known: Sequence[KnownContainer]) -> Sequence[str]:
        return ()

    def _heard(self, news: News) -> None:
        assert self._containers is not None
        assert self._demand is not None
        for report in news.nodes:  # first: a node's trouble and the end of all on it may come in one
            self._containers.node_changed(report)
        for container in news.granted:
            self._take(container)
        for status in news.completed:
            self._containers.completed(status)
        for refused in news.refused:
            self._demand.refused(refused.key, refused.reason)
        for rejected in news.rejected:
            self._demand.rejected(rejected.key, rejected.reason)
        for container_id in (*news.preempted, *news.preemptible):
            self._containers.wanted_back(container_id)
        self._demand.look()

    def _take(self, container: Container) -> None:
        assert self._containers is not None
        assert self._demand is not None
        assert container.id is not None
        role = self._demand.role(container.allocation_request_id)
        if role is None:
            assert self._master is not None
            _log.warning("%s was granted, which nobody asked for", ids.container_text(container.id))
            self._master.release(container.id)
            return
        self._demand.granted(role)
        self._containers.take(container, role)

    # --- what the application master wants ----------------------------------------------------------------------------

    def set_demand(self, role: str, total: int) -> None:
        if self._demand:
            self._demand.set(role, total)

    def _one_less(self, role: str) -> None:
        if self._sink and self._demand:
            self._demand.ask(role)

    async def launch(self, container: str, task: TaskPart, credentials: Credentials) -> None:
        name = f"{task.role}:{task.index}"
        if self._containers is None:
            raise SchedulerError(f"container {container} has ended before {name} was launched in it")
        await self._containers.launch(container, name, lambda: self._context(task, credentials))

    def _context(self, task: TaskPart, credentials: Credentials) -> ContainerLaunchContext:
        staged = self._job.record.staged.roles.get(task.role, StagedRole())
        # A task without GPUs is kept from seeing any.
        task = replace(task, gpus=gpus(self._spec.effective_roles[task.role].resources))
        papers = TaskPapers(task=task, credentials=credentials, staged=staged)
        tokens = Tokens(tokens=self._tokens.tokens, secrets={**self._tokens.secrets, TASK: packed(papers)})
        return task_container(
            self._spec,
            task.role,
            self._settings,
            self._papers.programs,
            staged,
            self._papers.objects,
            tokens,
            self._job.record.sources,
        )

    def release(self, container: str, patience: float) -> None:
        if self._containers:
            self._containers.release(container, patience)

    def kill(self, container: str, reason: str) -> None:
        if self._containers:
            self._containers.kill(container, reason)

    # --- the end ------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        if self._sink is None:
            return
        self._sink = None
        if self._demand:
            self._demand.close()
        if self._containers:
            await self._containers.close()

    async def finish(self, report: JobReport) -> None:
        if self._master is None:  # the job broke off before it began: YARN knows nothing of us yet
            try:
                await self.open(lambda event: None)
            except InfraError as error:
                _log.info("%s", error)
        try:
            if self._publisher:
                await self._publisher.finish()
        finally:
            await self._unregister(report)

    async def _unregister(self, report: JobReport) -> None:
        """Without it YARN takes us for lost. So it is done whatever else has failed."""
        if self._master is None:
            return
        try:
            await self._master.finish(_STATUS.get(report.state, FinalStatus.FAILED), _diagnostics(report), "")
        except AttemptOver as error:
            _log.info("%s", error)
        finally:
            if self._beating:
                self._beating.cancel()
                await asyncio.gather(self._beating, return_exceptions=True)
            await self._master.close()

    def _emit(self, event: Event) -> None:
        """Tells the sink soon: never from inside a call of its own."""
        asyncio.get_running_loop().call_soon(self._tell, event)

    def _tell(self, event: Event) -> None:
        if self._sink:
            self._sink(event)


def _looked_up(host: str) -> list[Any]:
    try:
        return socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return []


_STATUS = {
    JobState.SUCCEEDED: FinalStatus.SUCCEEDED,
    JobState.FAILED: FinalStatus.FAILED,
    JobState.KILLED: FinalStatus.KILLED,
}


def _diagnostics(report: JobReport) -> str:
    """What people see beside the application in YARN's own pages."""
    return report.failure.reason if report.failure else report.state.value
