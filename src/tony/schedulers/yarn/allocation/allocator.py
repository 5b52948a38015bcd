"""The application master's half on YARN: its job's files in HDFS, and its session with the ResourceManager."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tony.errors import AttemptSupersededError, InfraError, SchedulerError
from tony.hadoop.authentication import list_protections
from tony.hadoop.tokens import AM_RM, select
from tony.hadoop.tokens import TokenCredentials as Tokens
from tony.hadoop.wire.application_master import RegisterResponse
from tony.hadoop.wire.yarn_records import ContainerLaunchContext, FinalStatus
from tony.hadoop.yarn.am_rm_client import AttemptEndedError, MasterClient, create_scheduler_proxy
from tony.linux.thread_pools import to_thread
from tony.model.job_report import JobReport
from tony.model.staged_files import StagedRole
from tony.model.states import JobState
from tony.protocol.launch import AmCredentials, TaskLaunch, TaskPart
from tony.rpc.am_address import TlsAddress, parse
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
from tony.schedulers.job_store.previous_attempts import PreviousAttempts
from tony.schedulers.job_store.record_publisher import RecordPublisher
from tony.schedulers.yarn.allocation.am_attempt import AmAttempt
from tony.schedulers.yarn.allocation.page_proxy import find_page_proxy
from tony.schedulers.yarn.allocation.session import YarnSession
from tony.schedulers.yarn.capabilities import CAPABILITIES
from tony.schedulers.yarn.containers import ContainerEnv
from tony.schedulers.yarn.launch_contexts import build_task_container
from tony.schedulers.yarn.launch_payload import TASK, JobPayload, encode_payload
from tony.schedulers.yarn.resources import count_gpus
from tony.storage.hdfs.delegation_tokens import select_program_tokens

#: Share of YARN's AM expiry interval during which this AM attempt is certain to be the latest.
_CURRENT_SHARE = 0.8
#: Seconds that user programs outlive the time after which YARN gives up a silent AM or node.
_LEASE_MARGIN_SECONDS = 300.0
#: Share of the ResourceManager's wait for our registration during which HDFS may be unavailable.
_HDFS_WAIT_SHARE = 0.75
_AM_EXPIRY = "yarn.am.liveness-monitor.expiry-interval-ms"
_NODE_EXPIRY = "yarn.nm.liveness-monitor.expiry-interval-ms"
_STATUS = {
    JobState.SUCCEEDED: FinalStatus.SUCCEEDED,
    JobState.FAILED: FinalStatus.FAILED,
    JobState.KILLED: FinalStatus.KILLED,
}
_log = logging.getLogger(__name__)


class YarnAllocator(ContainerAllocator):
    """Containers of a YARN cluster, for the application master that runs in one of them.

    Before `open` it has the AM attempt, an unregistered client and the job's files in HDFS; `open` adds the session.

    Args:
        payload: the launch payload from the client.
        container_env: the AM's own container.

    Raises:
        SchedulerError: the container has no token for the ResourceManager.
    """

    capabilities = CAPABILITIES
    stores_metrics = True

    def __init__(self, job: PreparedJob, payload: JobPayload, container_env: ContainerEnv) -> None:
        attempt = self._attempt = AmAttempt.from_container(job, payload, container_env)
        configuration = attempt.cluster.configuration
        self._expiry = configuration.get_seconds(_AM_EXPIRY)
        self.lease = max(self._expiry, configuration.get_seconds(_NODE_EXPIRY)) + _LEASE_MARGIN_SECONDS
        self.overlap = _CURRENT_SHARE * self._expiry
        self.attempt = attempt.number
        self._tokens = select_program_tokens(container_env.credentials)
        self._store = HdfsJobStore(attempt.cluster, payload.folder)
        self._publisher = RecordPublisher(
            self._store, payload.record, payload.credentials.executors, job.folder, container_env.logs / "stderr"
        )
        self._master = _create_client(attempt)
        self._journal: ReplicatedJournal | None = None
        self._session: YarnSession | None = None
        self._has_history = attempt.number == 1  # the event logs of earlier AM attempts are here
        self._was_opened = False

    @property
    def host(self) -> str:
        return self._attempt.container.host

    def page_proxy(self) -> PageProxy | None:
        return find_page_proxy(self._attempt)

    # --- durable state ------------------------------------------------------------------------------------------------

    async def fetch_event_logs(self) -> None:
        if not self._has_history:
            timeout = _HDFS_WAIT_SHARE * self._expiry
            before = PreviousAttempts(self._attempt.number, self._store, self._attempt.job.folder, timeout)
            await to_thread(before.fetch_event_logs)
            await to_thread(before.fetch_metrics)
            self._has_history = True

    def journal(self, segment: Path, safe: Callable[[int], None]) -> Journal | None:
        self._journal = self._journal or ReplicatedJournal(segment, self._store, safe)
        return self._journal

    async def store_metrics(self, copy: Path) -> None:
        if self.is_current_attempt():  # else a later AM attempt may write it as well
            await to_thread(self._store.put, self._attempt.job.folder.metrics.name, copy, "copy")

    # --- the session --------------------------------------------------------------------------------------------------

    async def open(self, sink: Sink, addresses: AmAddresses = NOT_LISTENING) -> None:
        if self._was_opened:
            return
        self._was_opened = True
        registration = await self._register(addresses)
        if self._has_history:
            self._publisher.start(self._describe_am(addresses.am))
        self._session = YarnSession(self._attempt, self._master, registration, sink, self.is_current_attempt)

    async def _register(self, addresses: AmAddresses) -> RegisterResponse:
        listens = parse(addresses.am) if addresses.am else None
        host, port = (listens.host, listens.port) if isinstance(listens, TlsAddress) else ("", -1)
        page = f"http://{addresses.page}/" if addresses.page else ""
        try:
            return await self._master.register(host, port, page, is_heir=self._attempt.number > 1)
        except AttemptEndedError as error:
            raise AttemptSupersededError(str(error)) from error

    def _describe_am(self, address: str) -> Mapping[str, object] | None:
        """Return the AM's address as the ResourceManager reports it to clients; None if the AM does not listen."""
        if not address:
            return None
        return {"pid": 0, "host": self.host, "attempt": self._attempt.number, "address": address}

    def is_current_attempt(self) -> bool:
        # The ResourceManager may start the next AM attempt once it has not heard from us for the expiry interval. We
        # count from the arrival of its response, which is later than when it heard from us.
        is_ended = self._session is not None and self._session.is_ended
        return is_ended or self._master.unknown_for < self.overlap

    async def watch(self) -> None:
        if self._session:
            await self._session.watch()

    async def recover(self, known: Sequence[KnownContainer]) -> Sequence[str]:
        return await self._session.recover(known) if self._session else ()

    def set_demand(self, role: str, total: int) -> None:
        if self._session:
            self._session.set_demand(role, total)

    def set_memory(self, role: str, memory: int) -> None:
        if self._session:
            self._session.set_memory(role, memory)

    async def launch(self, container: str, task: TaskPart, credentials: AmCredentials) -> None:
        name = str(task.id)
        if self._session is None:
            raise SchedulerError(f"cannot launch {name}: container {container} has already ended")
        await self._session.launch(container, name, lambda: self._build_context(task, credentials))

    def _build_context(self, task: TaskPart, credentials: AmCredentials) -> ContainerLaunchContext:
        record, payload = self._attempt.job.record, self._attempt.payload
        staged = record.staged.roles.get(task.role, StagedRole())
        # Hide GPUs from a task that requested none.
        task = replace(task, gpus=count_gpus(record.spec.effective_roles[task.role].resources))
        launch = TaskLaunch(task=task, credentials=credentials, staged=staged)
        tokens = Tokens(tokens=self._tokens.tokens, secrets={**self._tokens.secrets, TASK: encode_payload(launch)})
        settings = self._attempt.settings
        return build_task_container(record, task.role, settings, payload.archives, payload.objects, tokens)

    def release(self, container: str, timeout: float) -> None:
        if self._session:
            self._session.release(container, timeout)

    def kill(self, container: str, reason: str) -> None:
        if self._session:
            self._session.kill(container, reason)

    def exclude(self, host: str) -> None:
        if self._session:
            self._session.exclude(host)

    def include(self, host: str) -> None:
        if self._session:
            self._session.include(host)

    # --- the end ------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        if self._session:
            await self._session.close()

    async def finish(self, report: JobReport) -> None:
        if not self._was_opened:  # the job failed before it started: not registered with YARN yet
            try:
                await self.open(lambda event: None)
            except InfraError as error:
                _log.info("%s", error)
        try:
            if self._session:
                await self._publisher.finish(self._journal)
        finally:
            await self._unregister(report)

    async def _unregister(self, report: JobReport) -> None:
        """Unregister from YARN, which otherwise takes the AM for lost; so it is done whatever else has failed."""
        portal = self._attempt.settings.portal
        page = f"{portal.rstrip('/')}/job/{self._attempt.job.record.job_id}" if portal else ""
        diagnostics = report.failure.reason if report.failure else report.state.value
        try:
            await self._master.finish(_STATUS.get(report.state, FinalStatus.FAILED), diagnostics, page)
        except AttemptEndedError as error:
            _log.info("%s", error)
        finally:
            if self._session:
                await self._session.stop_heartbeat()
            await self._master.close()


def _create_client(attempt: AmAttempt) -> MasterClient:
    token = select(attempt.container.credentials, AM_RM)
    if token is None:
        raise SchedulerError(f"no AMRMToken for the ResourceManager in {attempt.container.tokens}")
    configuration = attempt.cluster.configuration
    protections = list_protections(configuration)
    proxy = create_scheduler_proxy(configuration, token, protections=protections)
    return MasterClient(proxy, protections=protections)
