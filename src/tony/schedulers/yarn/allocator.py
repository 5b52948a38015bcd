"""The application master's half on YARN: requests containers, and starts an executor in each.

The heartbeat to the ResourceManager runs in a task of its own. Its results go to `outstanding_requests`, which counts
open requests, and to `container_table`, which tracks each container until its end.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tony.core.events import Event, Excluded, UserCommand
from tony.dataclass import replace
from tony.errors import InfraError, NotInCharge, SchedulerError, SchedulerLost
from tony.hadoop import ids
from tony.hadoop.authentication import protections
from tony.hadoop.configuration import Configuration
from tony.hadoop.configuration.service_addresses import resource_managers
from tony.hadoop.ipc.errors import HadoopError
from tony.hadoop.tokens.credentials import TokenCredentials as Tokens
from tony.hadoop.tokens.token_selector import AM_RM, select
from tony.hadoop.wire.yarn_records import Container, ContainerLaunchContext, FinalStatus
from tony.hadoop.yarn.am_rm_client import AttemptOver, MasterClient, Registration, scheduler_proxy
from tony.hadoop.yarn.nm_client import NodeClients
from tony.hadoop.yarn.request_table import AllocationUpdate
from tony.linux.threads import to_thread
from tony.model.job_report import JobReport
from tony.model.staged import StagedRole
from tony.model.states import JobState
from tony.protocol.launch import AmCredentials, TaskPart
from tony.schedulers.interface import ContainerAllocator, Journal, KnownContainer, PageProxy, PreparedJob, Sink
from tony.schedulers.yarn.attempt_diagnostics import find_termination_reason
from tony.schedulers.yarn.capabilities import CAPABILITIES
from tony.schedulers.yarn.cluster_clients import ClusterClients
from tony.schedulers.yarn.container_env import ContainerEnv
from tony.schedulers.yarn.container_recovery import Recovery
from tony.schedulers.yarn.container_request import ask_of
from tony.schedulers.yarn.container_table import Containers
from tony.schedulers.yarn.delegation_tokens import for_programs
from tony.schedulers.yarn.event_log_replication import HdfsJournal
from tony.schedulers.yarn.job_folder import JobFiles
from tony.schedulers.yarn.launch_payload import ARCHIVE, PAGES, TASK, JobPayload, TaskPayload, packed
from tony.schedulers.yarn.node_blacklist import Exclusions
from tony.schedulers.yarn.nodes_without_python import UnfitNodes
from tony.schedulers.yarn.outstanding_requests import Demand
from tony.schedulers.yarn.placement_constraints import placed
from tony.schedulers.yarn.previous_attempts import PreviousAttempts
from tony.schedulers.yarn.record_publisher import Publisher
from tony.schedulers.yarn.settings import ENVIRONMENT, OWN_PYTHON, read_settings
from tony.schedulers.yarn.submission_context import gpus, task_container
from tony.units import format_size

#: Share of YARN's AM expiry interval during which this AM attempt is certain to be the latest.
_CERTAIN = 0.8
#: Bytes of memory that the AM's container needs for the web server process next to the AM.
_ROOM_FOR_PAGES = 256 << 20
#: Seconds that user programs outlive the time after which YARN gives up a silent AM or node.
_LEASE_MORE = 300.0
#: Share of the ResourceManager's wait for our registration during which HDFS may be unavailable.
_FOR_HDFS = 0.75
#: Seconds for nodes to re-register with a restarted ResourceManager, besides two of their retry intervals.
_NODES_COME = 3.0
#: Seconds without any new container after which excluded hosts are used again rather than none.
_NO_ROOM = 60.0
#: Poll interval in seconds for being the current AM attempt again.
_LOOK = 0.05
_log = logging.getLogger(__name__)


class YarnSource(ContainerAllocator):
    """Containers of a YARN cluster, for the application master that runs in one of them.

    Args:
        papers: the launch payload from the client.
        inside: the AM's own container.
    """

    capabilities = CAPABILITIES

    keeps_measured = True

    def __init__(self, job: PreparedJob, papers: JobPayload, inside: ContainerEnv) -> None:
        self._job = job
        self._papers = papers
        self._inside = inside
        self._spec = job.record.spec
        self._settings, _ = read_settings(self._spec.scheduler_settings)
        self._configuration = Configuration.load(None, {}, given=papers.configuration)
        self._tokens = for_programs(inside.credentials)
        self._expiry = self._configuration.get_seconds(_AM_EXPIRY)
        self.lease = max(self._expiry, self._configuration.get_seconds(_NODE_EXPIRY)) + _LEASE_MORE
        self.overlap = _CERTAIN * self._expiry
        self.attempt = inside.attempt
        self._cluster = ClusterClients.of(self._configuration, {"HADOOP_USER_NAME": papers.user}, inside.credentials)
        self._files = JobFiles(papers.folder, self._cluster.web_files)
        self._knows = inside.attempt == 1  # the history of earlier AM attempts
        self._journal: HdfsJournal | None = None
        self._sink: Sink | None = None
        self._master: MasterClient | None = None
        self._nodes: NodeClients | None = None
        self._registration: Registration | None = None
        self._containers: Containers | None = None
        self._demand: Demand | None = None
        self._exclusions: Exclusions | None = None
        self._no_room: asyncio.TimerHandle | None = None
        self._recovery: Recovery | None = None
        self._kept_back: list[Event] | None = None
        self._foreign: set[asyncio.Task[None]] = set()
        self._is_last = False  # YARN has ended the application: no other AM attempt follows
        self._put_off: deque[Callable[[], None]] = deque()
        self._doing: asyncio.Task[None] | None = None
        self._beating: asyncio.Task[None] | None = None
        self._publisher: Publisher | None = None

    @property
    def host(self) -> str:
        return self._inside.host

    def page_door(self) -> PageProxy | None:
        """YARN's web proxy: a daemon of its own, or part of each ResourceManager."""
        own = self._configuration.get_address("yarn.web-proxy.address", 0)
        daemons = resource_managers(self._configuration)
        hosts = [own.host] if own else [daemon.web.host for daemon in daemons if daemon.web]
        web = own or next((daemon.web for daemon in daemons if daemon.web), None)
        peers = {str(found[4][0]) for name in hosts for found in _looked_up(name)}
        proxy = f"{daemons[0].web_scheme}://{web}/proxy/{self._job.record.job_id}/" if web else ""
        if not peers:
            return None
        origins = {f"{daemons[0].web_scheme}://{each}" for each in (own, *(daemon.web for daemon in daemons)) if each}
        principal = self._configuration.get("yarn.resourcemanager.principal") or ""
        plain = self._plain()
        return PageProxy(
            peers=tuple(sorted(peers)),
            proxy=proxy,
            origins=tuple(sorted(origins)),
            runs_as=tuple(sorted({"yarn", principal.partition("@")[0].partition("/")[0]} - {""})),
            # Without ACLs YARN itself shows container logs to all users.
            vouches=not self._configuration.get_bool("yarn.acl.enable"),
            packages="" if plain else self._packages(),
            plain=plain,
        )

    def _plain(self) -> str:
        """Return why only the plain page can be served; empty if the full one can."""
        if self._papers.pages is None:
            return "tony-jobs[web] is not installed where the job was submitted."
        if self._settings.am_memory < _ROOM_FOR_PAGES:
            return f"scheduler.yarn.am_memory is below {format_size(_ROOM_FOR_PAGES)}."
        return ""

    def _packages(self) -> str:
        """Return the zip with the full page, compiled for this Python if possible."""
        folder = self._inside.folder / PAGES
        compiled = folder / f"{ARCHIVE}-{sys.implementation.cache_tag}.zip"
        return str(compiled if compiled.is_file() else folder / f"{ARCHIVE}.zip")

    # --- durable state ------------------------------------------------------------------------------------------------

    async def bring_log(self) -> None:
        if not self._knows:
            recover, patience = self._cluster.recover_lease, _FOR_HDFS * self._expiry
            before = PreviousAttempts(self._inside.attempt, self._files, self._job.folder, recover, patience)
            await to_thread(before.bring)
            await to_thread(before.bring_measured)
            self._knows = True

    def journal(self, segment: Path, safe: Callable[[int], None]) -> Journal | None:
        self._journal = self._journal or HdfsJournal(segment, self._files, safe, self._cluster.recover_lease)
        return self._journal

    async def keep_measured(self, copy: Path) -> None:
        if self.in_charge():  # else a later AM attempt may write it as well
            await to_thread(self._files.send, self._job.folder.metrics.name, copy, "copy")

    # --- the ResourceManager ----------------------------------------------------------------------------------------

    async def open(self, sink: Sink) -> None:
        if self._sink:
            return
        self._sink = sink
        configuration = self._configuration
        token = select(self._inside.credentials, AM_RM)
        if token is None:
            raise SchedulerError(f"no AMRMToken for the ResourceManager in {self._inside.tokens}")
        wanted = protections(configuration)
        master = MasterClient(scheduler_proxy(configuration, token, protections=wanted), protections=wanted)
        self._master = master
        nodes = self._nodes = NodeClients(master.node_tokens, protections=wanted)
        # A shipped Python, or that of the job's environment, is the same on every node.
        room = {} if self._settings.python in (OWN_PYTHON, ENVIRONMENT) else self._papers.room
        unfit = UnfitNodes(room, leave_out=master.exclude, tell=self._emit)
        self._exclusions = Exclusions(
            lambda: master.cluster_nodes or self._papers.node_count,
            self._papers.room,
            unfit=lambda: unfit.hosts,
            leave_out=master.exclude,
            take_back=master.include,
            changed=lambda hosts: self._emit(Excluded(hosts=hosts)),
        )
        containers = self._containers = Containers(
            master,
            nodes,
            tell=self._emit,
            ended=self._one_less,
            unfit=unfit.found,
            in_charge=self._when_in_charge,
        )
        # An empty address means that the AM does not listen, and never will.
        host, _, port = self.master_address.removeprefix("tls:").rpartition(":")
        page = f"http://{self.page_address}/" if self.page_address else ""
        try:
            registration = self._registration = await master.register(
                host, int(port or -1), page, is_heir=self._inside.attempt > 1
            )
        except AttemptOver as error:
            raise NotInCharge(str(error)) from error
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
        own_log = self._inside.logs / "stderr"
        self._publisher = Publisher(self._files, self._papers, self._job.folder, own_log, self._listens())
        if self._knows:
            self._publisher.start()
        if self._inside.attempt == 1:
            self._begin_to_beat()

    def _begin_to_beat(self) -> asyncio.Task[None]:
        assert self._master is not None
        assert self._containers is not None
        containers = self._containers
        self._beating = asyncio.get_running_loop().create_task(self._beat(self._master))
        self._beating.add_done_callback(lambda _: containers.left_alone())
        return self._beating

    def _listens(self) -> Mapping[str, object] | None:
        """Return the AM's address as the ResourceManager reports it to clients; None if the AM does not listen."""
        if not self.master_address:
            return None
        return {"pid": 0, "host": self.host, "attempt": self._inside.attempt, "address": self.master_address}

    async def _beat(self, master: MasterClient) -> None:
        try:
            await master.run(self._heard)
        except AttemptOver as error:
            _log.error("%s", error)
            why = await find_termination_reason(error, self._configuration, self._papers, self._inside)
            self._is_last = True
            self._emit(UserCommand(actor=f"YARN: {why}", what="kill-now"))
        except HadoopError as error:
            if not self.in_charge():
                raise NotInCharge(
                    f"the ResourceManager was unreachable for so long that it may start another AM attempt: {error}"
                ) from error
            raise SchedulerLost(f"lost the connection to the ResourceManager: {error}") from error

    async def watch(self) -> None:
        if self._beating is None:
            return
        beating = asyncio.ensure_future(asyncio.shield(self._beating))
        both = {beating, self._journal.lost} if self._journal else {beating}
        try:
            done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            beating.cancel()

    async def recover(self, known: Sequence[KnownContainer]) -> Sequence[str]:
        if self._beating is not None or self._registration is None:  # the first AM attempt, or a second call
            return [each.id for each in known if self._containers and self._containers.has(each.id)]
        assert self._containers is not None
        assert self._master is not None
        assert self._nodes is not None
        retry = self._configuration.get_seconds("yarn.resourcemanager.connect.retry-interval.ms")
        self._recovery = Recovery(
            known,
            self._containers,
            self._master,
            self._nodes,
            own=self._inside.container,
            usual_nodes=self._papers.node_count,
            patience=2 * retry + _NODES_COME,
            end=self._end_foreign,
            tell=self._emit,
        )
        self._recovery.found(self._registration.containers)
        self._kept_back = []
        beating = self._begin_to_beat()
        settling = asyncio.get_running_loop().create_task(self._recovery.settle())
        await asyncio.wait({settling, beating}, return_when=asyncio.FIRST_COMPLETED)
        if not settling.done():
            settling.cancel()
            await beating  # it has failed, and raises why
        found, ends = self._recovery.outcome()
        kept_back, self._kept_back = self._kept_back, None
        for event in (*kept_back, *ends):
            self._emit(event)
        return found

    def _end_foreign(self, container: Container) -> None:
        assert self._containers is not None
        task = asyncio.get_running_loop().create_task(self._containers.end_foreign(container))
        self._foreign.add(task)
        task.add_done_callback(self._foreign.discard)

    def _heard(self, news: AllocationUpdate) -> None:
        assert self._containers is not None
        assert self._demand is not None
        if self._recovery:
            self._recovery.heard(news)
        if self._exclusions:
            self._exclusions.look()
        for report in news.nodes:  # first: one heartbeat may bring a node's failure and the ends of its containers
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
        self._look_for_room(has_come=bool(news.granted))

    def _look_for_room(self, *, has_come: bool = False) -> None:
        """Exclude hosts only as long as that does not keep the job from running.

        Args:
            has_come: a container has just been granted.
        """
        waits = bool(self._master and self._master.outstanding() and self._exclusions and self._exclusions.hosts)
        if self._no_room and (has_come or not waits):
            self._no_room.cancel()
            self._no_room = None
        if waits and self._no_room is None and self._exclusions:
            self._no_room = asyncio.get_running_loop().call_later(_NO_ROOM, self._exclusions.give_way)

    def _take(self, container: Container) -> None:
        assert self._containers is not None
        assert self._demand is not None
        assert container.id is not None
        role = self._demand.role(container.allocation_request_id)
        if role is None:
            assert self._master is not None
            _log.warning("%s was granted without a matching request; releasing it", ids.container_text(container.id))
            self._master.release(container.id)
            return
        self._demand.granted(role)
        self._containers.take(container, role)

    # --- demand -------------------------------------------------------------------------------------------------------

    def set_demand(self, role: str, total: int) -> None:
        if self._demand:
            self._demand.set(role, total)
            self._look_for_room()

    def _one_less(self, role: str) -> None:
        if self._sink and self._demand:
            self._demand.ask(role)
            self._look_for_room()

    def in_charge(self) -> bool:
        # The ResourceManager may start the next AM attempt once it has not heard from us for the expiry interval. We
        # count from the arrival of its response, which is later than when it heard from us.
        return self._master is None or self._is_last or self._master.unknown_for < self.overlap

    def _when_in_charge(self, do: Callable[[], None]) -> None:
        """Call it now; or, in order, when the ResourceManager has responded again."""
        if self.in_charge() and not self._put_off:
            do()
            return
        self._put_off.append(do)
        if self._doing is None or self._doing.done():
            self._doing = asyncio.get_running_loop().create_task(self._do_later())

    async def _do_later(self) -> None:
        while self._put_off:
            if self.in_charge():
                self._put_off.popleft()()
            else:
                await asyncio.sleep(_LOOK)

    async def launch(self, container: str, task: TaskPart, credentials: AmCredentials) -> None:
        name = f"{task.role}:{task.index}"
        if self._containers is None:
            raise SchedulerError(f"cannot launch {name}: container {container} has already ended")
        await self._containers.launch(container, name, lambda: self._context(task, credentials))

    def _context(self, task: TaskPart, credentials: AmCredentials) -> ContainerLaunchContext:
        staged = self._job.record.staged.roles.get(task.role, StagedRole())
        # Hide GPUs from a task that requested none.
        task = replace(task, gpus=gpus(self._spec.effective_roles[task.role].resources))
        papers = TaskPayload(task=task, credentials=credentials, staged=staged)
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
            self._when_in_charge(partial(self._containers.release, container, patience))

    def kill(self, container: str, reason: str) -> None:
        if self._containers:
            self._when_in_charge(partial(self._containers.kill, container, reason))

    def exclude(self, host: str) -> None:
        if self._exclusions:
            self._exclusions.exclude(host)
            self._look_for_room()

    def include(self, host: str) -> None:
        if self._exclusions:
            self._exclusions.include(host)

    # --- the end ------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        if self._sink is None:
            return
        self._sink = None
        self._put_off.clear()  # all containers are stopped now
        for pending in (self._doing, self._no_room):
            if pending:
                pending.cancel()
        if self._demand:
            self._demand.close()
        if self._containers:
            await self._containers.close()

    async def finish(self, report: JobReport) -> None:
        if self._master is None:  # the job failed before it started: not registered with YARN yet
            try:
                await self.open(lambda event: None)
            except InfraError as error:
                _log.info("%s", error)
        try:
            if self._publisher:
                await self._publisher.finish(self._journal)
        finally:
            await self._unregister(report)

    @property
    def _history(self) -> str:
        """URL of the finished job's page; empty if there is none."""
        portal = self._settings.portal
        return f"{portal.rstrip('/')}/job/{self._job.record.job_id}" if portal else ""

    async def _unregister(self, report: JobReport) -> None:
        """Unregister from YARN, which otherwise takes the AM for lost; so it is done whatever else has failed."""
        if self._master is None:
            return
        try:
            status = _STATUS.get(report.state, FinalStatus.FAILED)
            await self._master.finish(status, _diagnostics(report), self._history)
        except AttemptOver as error:
            _log.info("%s", error)
        finally:
            if self._beating:
                self._beating.cancel()
                await asyncio.gather(self._beating, return_exceptions=True)
            await self._master.close()

    def _emit(self, event: Event) -> None:
        """Call the sink on the next loop iteration: never from inside a call of its own, and not during recovery."""
        if self._kept_back is not None:
            self._kept_back.append(event)
            return
        asyncio.get_running_loop().call_soon(self._tell, event)

    def _tell(self, event: Event) -> None:
        if self._sink:
            self._sink(event)


_AM_EXPIRY, _NODE_EXPIRY = (f"yarn.{who}.liveness-monitor.expiry-interval-ms" for who in ("am", "nm"))


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
    """Return the diagnostics shown on YARN's own pages."""
    return report.failure.reason if report.failure else report.state.value
