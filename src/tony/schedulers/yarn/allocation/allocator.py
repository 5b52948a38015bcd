"""The application master's half on YARN: requests containers, and starts an executor in each.

The heartbeat to the ResourceManager runs in a task of its own. Its results go to `outstanding_requests`, which counts
open requests, and to `container_table`, which tracks each container until its end.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from tony.core.events import Event, Excluded, KillRequested
from tony.errors import AttemptSupersededError, InfraError, SchedulerError, SchedulerLostError
from tony.hadoop import ids
from tony.hadoop.authentication import list_protections
from tony.hadoop.configuration import Configuration
from tony.hadoop.ipc.errors import HadoopError
from tony.hadoop.tokens import AM_RM, select
from tony.hadoop.tokens import TokenCredentials as Tokens
from tony.hadoop.wire.yarn_records import Container, ContainerLaunchContext, FinalStatus
from tony.hadoop.yarn.am_rm_client import AttemptEndedError, MasterClient, Registration, create_scheduler_proxy
from tony.hadoop.yarn.nm_client import NodeClients
from tony.hadoop.yarn.request_table import AllocationUpdate
from tony.linux.thread_pools import to_thread
from tony.model.actor import Actor, ActorKind
from tony.model.job_report import JobReport
from tony.model.staged_files import StagedRole
from tony.model.states import JobState
from tony.protocol.launch import AmCredentials, TaskLaunch, TaskPart
from tony.schedulers.allocator_interface import (
    NOT_LISTENING,
    AmAddresses,
    ContainerAllocator,
    Journal,
    KnownContainer,
    PageProxy,
    Sink,
)
from tony.schedulers.client_interface import PreparedJob
from tony.schedulers.job_store.event_log_replication import ReplicatedJournal
from tony.schedulers.job_store.hdfs_job_store import HdfsJobStore
from tony.schedulers.job_store.previous_attempt_files import PreviousAttempts
from tony.schedulers.job_store.record_publisher import RecordPublisher
from tony.schedulers.shipping import OWN_PYTHON
from tony.schedulers.yarn.allocation.container_demand import build_container_request
from tony.schedulers.yarn.allocation.container_recovery import ContainerRecovery
from tony.schedulers.yarn.allocation.container_table import ContainerTable
from tony.schedulers.yarn.allocation.exit_reasons import find_termination_reason
from tony.schedulers.yarn.allocation.node_blacklist import NodeBlacklist, NodesWithoutPython
from tony.schedulers.yarn.allocation.outstanding_requests import OutstandingRequests
from tony.schedulers.yarn.allocation.page_proxy import find_page_proxy
from tony.schedulers.yarn.capabilities import CAPABILITIES
from tony.schedulers.yarn.client.placement_constraints import find_placed
from tony.schedulers.yarn.cluster_clients import ClusterClients
from tony.schedulers.yarn.container_env import ContainerEnv
from tony.schedulers.yarn.launch_contexts import build_task_container, count_gpus
from tony.schedulers.yarn.launch_payload import TASK, JobPayload, encode_payload
from tony.schedulers.yarn.settings import ENVIRONMENT, read_settings
from tony.storage.hdfs.delegation_tokens import select_program_tokens

#: Share of YARN's AM expiry interval during which this AM attempt is certain to be the latest.
_CURRENT_SHARE = 0.8
#: Seconds that user programs outlive the time after which YARN gives up a silent AM or node.
_LEASE_MARGIN_SECONDS = 300.0
#: Share of the ResourceManager's wait for our registration during which HDFS may be unavailable.
_HDFS_WAIT_SHARE = 0.75
#: Seconds for nodes to re-register with a restarted ResourceManager, besides two of their retry intervals.
_NODES_RETURN_SECONDS = 3.0
#: Seconds without any new container after which excluded hosts are used again rather than none.
_MAX_EXCLUSION_WAIT_SECONDS = 60.0
#: Poll interval in seconds for being the current AM attempt again.
_POLL_SECONDS = 0.05
_log = logging.getLogger(__name__)


class YarnAllocator(ContainerAllocator):
    """Containers of a YARN cluster, for the application master that runs in one of them.

    Args:
        payload: the launch payload from the client.
        container_env: the AM's own container.
    """

    capabilities = CAPABILITIES
    stores_metrics = True

    def __init__(self, job: PreparedJob, payload: JobPayload, container_env: ContainerEnv) -> None:
        self._job = job
        self._payload = payload
        self._container_env = container_env
        self._spec = job.record.spec
        self._settings, _ = read_settings(self._spec.scheduler_settings)
        self._configuration = Configuration.load(None, {}, given=payload.configuration)
        self._tokens = select_program_tokens(container_env.credentials)
        self._expiry = self._configuration.get_seconds(_AM_EXPIRY)
        self.lease = max(self._expiry, self._configuration.get_seconds(_NODE_EXPIRY)) + _LEASE_MARGIN_SECONDS
        self.overlap = _CURRENT_SHARE * self._expiry
        self.attempt = container_env.attempt
        self._cluster = ClusterClients.from_configuration(
            self._configuration, {"HADOOP_USER_NAME": payload.user}, container_env.credentials
        )
        self._store = HdfsJobStore(self._cluster, payload.folder)
        self._has_history = container_env.attempt == 1  # the history of earlier AM attempts
        self._journal: ReplicatedJournal | None = None
        self._sink: Sink | None = None
        self._master: MasterClient | None = None
        self._nodes: NodeClients | None = None
        self._registration: Registration | None = None
        self._containers: ContainerTable | None = None
        self._demand: OutstandingRequests | None = None
        self._blacklist: NodeBlacklist | None = None
        self._exclusion_timer: asyncio.TimerHandle | None = None
        self._recovery: ContainerRecovery | None = None
        self._delayed_events: list[Event] | None = None
        self._stopping: set[asyncio.Task[None]] = set()
        self._is_last = False  # YARN has ended the application: no other AM attempt follows
        self._postponed: deque[Callable[[], None]] = deque()
        self._postponed_task: asyncio.Task[None] | None = None
        self._heartbeat: asyncio.Task[None] | None = None
        self._publisher: RecordPublisher | None = None

    @property
    def host(self) -> str:
        return self._container_env.host

    def page_proxy(self) -> PageProxy | None:
        return find_page_proxy(
            self._job.record.job_id, self._configuration, self._settings, self._payload, self._container_env
        )

    # --- durable state ------------------------------------------------------------------------------------------------

    async def fetch_event_logs(self) -> None:
        if not self._has_history:
            timeout = _HDFS_WAIT_SHARE * self._expiry
            before = PreviousAttempts(self._container_env.attempt, self._store, self._job.folder, timeout)
            await to_thread(before.fetch_event_logs)
            await to_thread(before.fetch_metrics)
            self._has_history = True

    def journal(self, segment: Path, safe: Callable[[int], None]) -> Journal | None:
        self._journal = self._journal or ReplicatedJournal(segment, self._store, safe)
        return self._journal

    async def store_metrics(self, copy: Path) -> None:
        if self.is_current_attempt():  # else a later AM attempt may write it as well
            await to_thread(self._store.put, self._job.folder.metrics.name, copy, "copy")

    # --- the ResourceManager ----------------------------------------------------------------------------------------

    async def open(self, sink: Sink, addresses: AmAddresses = NOT_LISTENING) -> None:
        if self._sink:
            return
        self._sink = sink
        master = self._master = self._create_client()
        nodes = self._nodes = NodeClients(master.node_tokens, protections=list_protections(self._configuration))
        # A shipped Python, or that of the job's environment, is the same on every node.
        suitable_nodes = {} if self._settings.python in (OWN_PYTHON, ENVIRONMENT) else self._payload.suitable_nodes
        nodes_without_python = NodesWithoutPython(suitable_nodes, leave_out=master.exclude, emit=self._emit)
        self._blacklist = NodeBlacklist(
            lambda: master.cluster_nodes or self._payload.node_count,
            self._payload.suitable_nodes,
            unfit=lambda: nodes_without_python.hosts,
            leave_out=master.exclude,
            take_back=master.include,
            changed=lambda hosts: self._emit(Excluded(hosts=hosts)),
        )
        containers = self._containers = ContainerTable(
            master,
            nodes,
            emit=self._emit,
            ended=self._on_container_ended,
            unfit=nodes_without_python.add,
            run_when_current=self._run_when_current,
        )
        registration = self._registration = await self._register(master, addresses)
        self._demand = OutstandingRequests(
            {
                role: build_container_request(self._spec, role, self._settings, self._payload.nodes)
                for role in self._spec.effective_roles
            },
            master,
            registration,
            placed=find_placed(self._spec, self._settings),
            queue=self._settings.queue,
            count=containers.count,
            left_out=lambda: nodes_without_python.hosts,
            emit=self._emit,
        )
        self._publisher = RecordPublisher(
            self._store,
            self._payload.record,
            self._payload.credentials.executors,
            self._job.folder,
            self._container_env.logs / "stderr",
            self._describe_am(addresses.am),
        )
        if self._has_history:
            self._publisher.start()
        if self._container_env.attempt == 1:
            self._start_heartbeat()

    def _create_client(self) -> MasterClient:
        token = select(self._container_env.credentials, AM_RM)
        if token is None:
            raise SchedulerError(f"no AMRMToken for the ResourceManager in {self._container_env.tokens}")
        protections = list_protections(self._configuration)
        proxy = create_scheduler_proxy(self._configuration, token, protections=protections)
        return MasterClient(proxy, protections=protections)

    async def _register(self, master: MasterClient, addresses: AmAddresses) -> Registration:
        host, _, port = addresses.am.removeprefix("tls:").rpartition(":")
        page = f"http://{addresses.page}/" if addresses.page else ""
        try:
            return await master.register(host, int(port or -1), page, is_heir=self._container_env.attempt > 1)
        except AttemptEndedError as error:
            raise AttemptSupersededError(str(error)) from error

    def _start_heartbeat(self) -> asyncio.Task[None]:
        assert self._master is not None
        assert self._containers is not None
        containers = self._containers
        self._heartbeat = asyncio.get_running_loop().create_task(self._run_heartbeat(self._master))
        self._heartbeat.add_done_callback(lambda _: containers.on_rm_lost())
        return self._heartbeat

    def _describe_am(self, address: str) -> Mapping[str, object] | None:
        """Return the AM's address as the ResourceManager reports it to clients; None if the AM does not listen."""
        if not address:
            return None
        return {"pid": 0, "host": self.host, "attempt": self._container_env.attempt, "address": address}

    async def _run_heartbeat(self, master: MasterClient) -> None:
        try:
            await master.run(self._on_heartbeat)
        except AttemptEndedError as error:
            _log.error("%s", error)
            why = await find_termination_reason(error, self._configuration, self._payload, self._container_env)
            self._is_last = True
            self._emit(KillRequested(actor=Actor(f"YARN: {why}", ActorKind.SCHEDULER), now=True))
        except HadoopError as error:
            if not self.is_current_attempt():
                raise AttemptSupersededError(
                    f"the ResourceManager was unreachable for so long that it may start another AM attempt: {error}"
                ) from error
            raise SchedulerLostError(f"lost the connection to the ResourceManager: {error}") from error

    async def watch(self) -> None:
        if self._heartbeat is None:
            return
        beating = asyncio.ensure_future(asyncio.shield(self._heartbeat))
        both = {beating, self._journal.lost} if self._journal else {beating}
        try:
            done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            beating.cancel()

    async def recover(self, known: Sequence[KnownContainer]) -> Sequence[str]:
        if self._heartbeat is not None or self._registration is None:  # the first AM attempt, or a second call
            return [container.id for container in known if self._containers and self._containers.has(container.id)]
        assert self._containers is not None
        assert self._master is not None
        assert self._nodes is not None
        retry = self._configuration.get_seconds("yarn.resourcemanager.connect.retry-interval.ms")
        self._recovery = ContainerRecovery(
            known,
            self._containers,
            self._master,
            self._nodes,
            own=self._container_env.container,
            usual_nodes=self._payload.node_count,
            timeout=2 * retry + _NODES_RETURN_SECONDS,
            end=self._stop_unknown,
            emit=self._emit,
        )
        self._recovery.add_running(self._registration.containers)
        self._delayed_events = []
        beating = self._start_heartbeat()
        settling = asyncio.get_running_loop().create_task(self._recovery.wait_settled())
        await asyncio.wait({settling, beating}, return_when=asyncio.FIRST_COMPLETED)
        if not settling.done():
            settling.cancel()
            await beating  # it has failed, and raises why
        found, ends = self._recovery.find_outcome()
        delayed_events, self._delayed_events = self._delayed_events, None
        for event in (*delayed_events, *ends):
            self._emit(event)
        return found

    def _stop_unknown(self, container: Container) -> None:
        assert self._containers is not None
        task = asyncio.get_running_loop().create_task(self._containers.stop_unknown(container))
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)

    def _on_heartbeat(self, update: AllocationUpdate) -> None:
        assert self._containers is not None
        assert self._demand is not None
        if self._recovery:
            self._recovery.on_heartbeat(update)
        if self._blacklist:
            self._blacklist.refresh()
        for report in update.nodes:  # first: one heartbeat may bring a node's failure and the ends of its containers
            self._containers.on_node_changed(report)
        for container in update.granted:
            self._take(container)
        for status in update.completed:
            self._containers.on_completed(status)
        for refused in update.refused:
            self._demand.on_refused(refused.key, refused.reason)
        for rejected in update.rejected:
            self._demand.on_rejected(rejected.key, rejected.reason)
        for container_id in (*update.preempted, *update.preemptible):
            self._containers.on_preempted(container_id)
        self._demand.report_pending()
        self._limit_exclusion(was_granted=bool(update.granted))

    def _limit_exclusion(self, *, was_granted: bool = False) -> None:
        """Exclude hosts only as long as that does not keep the job from running.

        Args:
            was_granted: a container has just been granted.
        """
        is_waiting = bool(
            self._master and self._master.count_outstanding() and self._blacklist and self._blacklist.hosts
        )
        if self._exclusion_timer and (was_granted or not is_waiting):
            self._exclusion_timer.cancel()
            self._exclusion_timer = None
        if is_waiting and self._exclusion_timer is None and self._blacklist:
            self._exclusion_timer = asyncio.get_running_loop().call_later(
                _MAX_EXCLUSION_WAIT_SECONDS, self._blacklist.clear
            )

    def _take(self, container: Container) -> None:
        assert self._containers is not None
        assert self._demand is not None
        assert container.id is not None
        role = self._demand.find_role(container.allocation_request_id)
        if role is None:
            assert self._master is not None
            _log.warning("%s was granted without a matching request; releasing it", ids.format_container(container.id))
            self._master.release(container.id)
            return
        self._demand.on_granted(role)
        self._containers.add(container, role)

    # --- demand -------------------------------------------------------------------------------------------------------

    def set_demand(self, role: str, total: int) -> None:
        if self._demand:
            self._demand.set(role, total)
            self._limit_exclusion()

    def _on_container_ended(self, role: str) -> None:
        if self._sink and self._demand:
            self._demand.request_missing(role)
            self._limit_exclusion()

    def is_current_attempt(self) -> bool:
        # The ResourceManager may start the next AM attempt once it has not heard from us for the expiry interval. We
        # count from the arrival of its response, which is later than when it heard from us.
        return self._master is None or self._is_last or self._master.unknown_for < self.overlap

    def _run_when_current(self, do: Callable[[], None]) -> None:
        """Call it now; or, in order, when the ResourceManager has responded again."""
        if self.is_current_attempt() and not self._postponed:
            do()
            return
        self._postponed.append(do)
        if self._postponed_task is None or self._postponed_task.done():
            self._postponed_task = asyncio.get_running_loop().create_task(self._run_postponed())

    async def _run_postponed(self) -> None:
        while self._postponed:
            if self.is_current_attempt():
                self._postponed.popleft()()
            else:
                await asyncio.sleep(_POLL_SECONDS)

    async def launch(self, container: str, task: TaskPart, credentials: AmCredentials) -> None:
        name = f"{task.role}:{task.index}"
        if self._containers is None:
            raise SchedulerError(f"cannot launch {name}: container {container} has already ended")
        await self._containers.launch(container, name, lambda: self._context(task, credentials))

    def _context(self, task: TaskPart, credentials: AmCredentials) -> ContainerLaunchContext:
        staged = self._job.record.staged.roles.get(task.role, StagedRole())
        # Hide GPUs from a task that requested none.
        task = replace(task, gpus=count_gpus(self._spec.effective_roles[task.role].resources))
        payload = TaskLaunch(task=task, credentials=credentials, staged=staged)
        tokens = Tokens(tokens=self._tokens.tokens, secrets={**self._tokens.secrets, TASK: encode_payload(payload)})
        return build_task_container(
            self._spec,
            task.role,
            self._settings,
            self._payload.programs,
            staged,
            self._payload.objects,
            tokens,
            self._job.record.sources,
        )

    def release(self, container: str, timeout: float) -> None:
        if self._containers:
            self._run_when_current(partial(self._containers.release, container, timeout))

    def kill(self, container: str, reason: str) -> None:
        if self._containers:
            self._run_when_current(partial(self._containers.kill, container, reason))

    def exclude(self, host: str) -> None:
        if self._blacklist:
            self._blacklist.exclude(host)
            self._limit_exclusion()

    def include(self, host: str) -> None:
        if self._blacklist:
            self._blacklist.include(host)

    # --- the end ------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        if self._sink is None:
            return
        self._sink = None
        self._postponed.clear()  # all containers are stopped now
        for pending in (self._postponed_task, self._exclusion_timer):
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
        except AttemptEndedError as error:
            _log.info("%s", error)
        finally:
            if self._heartbeat:
                self._heartbeat.cancel()
                await asyncio.gather(self._heartbeat, return_exceptions=True)
            await self._master.close()

    def _emit(self, event: Event) -> None:
        """Call the sink on the next loop iteration: never from inside a call of its own, and not during recovery."""
        if self._delayed_events is not None:
            self._delayed_events.append(event)
            return
        asyncio.get_running_loop().call_soon(self._deliver, event)

    def _deliver(self, event: Event) -> None:
        if self._sink:
            self._sink(event)


_AM_EXPIRY, _NODE_EXPIRY = (f"yarn.{who}.liveness-monitor.expiry-interval-ms" for who in ("am", "nm"))


_STATUS = {
    JobState.SUCCEEDED: FinalStatus.SUCCEEDED,
    JobState.FAILED: FinalStatus.FAILED,
    JobState.KILLED: FinalStatus.KILLED,
}


def _diagnostics(report: JobReport) -> str:
    """Return the diagnostics shown on YARN's own pages."""
    return report.failure.reason if report.failure else report.state.value
