"""The application master's half on Kubernetes: its pods, and its job's files in ConfigMaps.

Requests to the API server are made in threads; the table of pods changes on the AM's event loop only.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tony.core.events import ContainerEnded, EndConfirmation, Event, Granted, Queued, Unsatisfiable
from tony.errors import AttemptSupersededError, SchedulerError
from tony.kube.api_client import ApiClient, Object
from tony.kube.errors import KubeApiError
from tony.kube.object_watch import Change, ObjectChange, ObjectWatch
from tony.linux.thread_pools import to_thread
from tony.model.job_report import JobReport
from tony.model.log_file_tail import LogFileTail
from tony.model.states import JobState
from tony.protocol.launch import AmCredentials, TaskLaunch, TaskPart
from tony.schedulers.allocator_interface import NOT_LISTENING, AmAddresses, Journal, KnownContainer, SignalEffect, Sink
from tony.schedulers.client_interface import PreparedJob
from tony.schedulers.enlisting_allocator import EnlistingAllocator
from tony.schedulers.job_store.event_log_replication import ReplicatedJournal
from tony.schedulers.job_store.job_objects import JOB_LABEL, PART_LABEL
from tony.schedulers.job_store.job_store import JobStore
from tony.schedulers.job_store.output_store import MAX_OUTPUT_BYTES, OutputStore
from tony.schedulers.job_store.previous_attempts import PreviousAttempts
from tony.schedulers.job_store.record_publisher import RecordPublisher
from tony.schedulers.kubernetes import pod_status
from tony.schedulers.kubernetes.am_pod import AmPod
from tony.schedulers.kubernetes.am_tokens import load_tokens
from tony.schedulers.kubernetes.capabilities import CAPABILITIES
from tony.schedulers.kubernetes.excluded_nodes import ExcludedNodes
from tony.schedulers.kubernetes.gangs import GangKind, GangTable, find_gang_name
from tony.schedulers.kubernetes.kueue import QueueWatch
from tony.schedulers.kubernetes.launch_payload import AmPayload
from tony.schedulers.kubernetes.manifests import (
    ROLE_LABEL,
    TASK_PART,
    build_pod_name_prefix,
    build_task_pod,
    find_am_address,
)
from tony.schedulers.kubernetes.pod_command import FAILED_EXIT_CODE
from tony.schedulers.kubernetes.pod_groups import PodGroupRequests
from tony.schedulers.kubernetes.pod_requests import PodRequests
from tony.schedulers.kubernetes.pod_table import Gang, PodStage, PodTable, TaskPod
from tony.schedulers.kubernetes.pod_watch import start_pod_watch
from tony.schedulers.kubernetes.settings import read_settings
from tony.schedulers.kubernetes.start_failures import StartFailures

#: Where the AM listens in its pod.
_AM_PORT = 7070
#: Seconds beyond its grace for which a deleted pod is waited for; then its node may be lost.
_REMOVAL_SECONDS = 10.0
#: Seconds for the event logs of earlier AM attempts, and at the end for the pods.
_STORE_SECONDS = 60.0
_CLOSE_SECONDS = 40.0
#: Seconds without a proof that there is no other AM attempt, after which there may be one.
_OVERLAP_SECONDS = 30.0
_CURRENT_SHARE = 0.8
#: Seconds after a change of a pod until all are looked at: others change meanwhile.
_REVIEW_SECONDS = 0.02
_log = logging.getLogger(__name__)


class KubernetesAllocator(EnlistingAllocator):
    """Pods of one namespace, for the application master that runs in one of them.

    Args:
        pod: name of the AM's pod.
        host: its address.
        client: repeats no request: the pods and the store of this AM do that themselves.
        store: the job's files; it has claimed the event log of this AM attempt.
        attempt: the number of this AM attempt.
    """

    capabilities = CAPABILITIES
    stores_metrics = True
    output_limit = MAX_OUTPUT_BYTES
    dialed_by = "kubernetes"
    overlap = _OVERLAP_SECONDS

    def __init__(
        self,
        job: PreparedJob,
        payload: AmPayload,
        pod: str,
        host: str,
        client: ApiClient,
        store: JobStore,
        attempt: int,
    ) -> None:
        super().__init__(job)
        self._job, self._payload, self._host, self._client = job, payload, host, client
        self._settings, _ = read_settings(job.record.spec.scheduler_settings)
        self._labels = {JOB_LABEL: job.record.job_id, PART_LABEL: TASK_PART}
        self._am_pod = AmPod(client, job.record.job_id, pod, _CURRENT_SHARE * self.overlap)
        self._requests = PodRequests(client, self._labels, self._am_pod, store.is_permanent, self._review_soon)
        self._store, self._output, self.attempt = store, OutputStore(store, attempt), attempt
        record, executors = payload.record, payload.credentials.executors
        self._publisher = RecordPublisher(store, record, executors, job.folder, job.folder.am_log)
        self._journal: ReplicatedJournal | None = None
        self._tokens = load_tokens()
        self._table = PodTable()
        self._start_failures = StartFailures(self._table, lambda event: self._sink(event), self._leave_node)
        self._lost: dict[str, TaskPod] = {}  # replaced without a proof of their end
        self._gangs = GangTable(job.record.spec, f"{job.record.job_id}-g{attempt}", self._settings)
        self._pod_groups = PodGroupRequests(
            client, job.record.job_id, payload.owner, self._am_pod, is_required=self._settings.gang == "native"
        )
        self._queued = self._am_address = ""
        self._queue_watch = QueueWatch(client, self._settings.queue, self._table, self._note_pending)
        self._memory = {name: role.resources.memory for name, role in job.record.spec.effective_roles.items()}
        self._excluded = ExcludedNodes(lambda event: self._sink(event))
        self._sink: Sink = _ignore
        self._reviewing: asyncio.TimerHandle | None = None
        self._watch: ObjectWatch | None = None
        self._am_pod_watch: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closing = False
        self._changed, self._recovered = asyncio.Event(), asyncio.Event()

    @property
    def host(self) -> str:
        return self._host

    @property
    def listen_port(self) -> int:
        return _AM_PORT  # executors that have not enlisted find an AM that was started again in its pod

    @property
    def listen_host(self) -> str:
        return "::" if ":" in self._host else "0.0.0.0"  # port-forward arrives at the loopback address

    async def on_signal(self, number: int) -> SignalEffect:
        return await self._am_pod.find_effect()

    def exit_code(self, report: JobReport) -> int:
        return 0 if report.state is JobState.SUCCEEDED else FAILED_EXIT_CODE

    # --- durable state ------------------------------------------------------------------------------------------------

    async def fetch_event_logs(self) -> None:
        assert self.attempt is not None
        before = PreviousAttempts(self.attempt, self._store, self._job.folder, _STORE_SECONDS)
        await to_thread(before.fetch_event_logs)
        if self.attempt > 1:
            await to_thread(before.fetch_metrics)

    def journal(self, segment: Path, safe: Callable[[int], None]) -> Journal | None:
        self._journal = self._journal or ReplicatedJournal(segment, self._store, safe)
        return self._journal

    async def store_metrics(self, copy: Path) -> None:
        await to_thread(self._store.put, self._job.folder.metrics.name, copy, "copy")

    async def store_output(self, tails: Sequence[LogFileTail]) -> None:
        await to_thread(self._output.put, tails)

    # --- the session --------------------------------------------------------------------------------------------------

    async def open(self, sink: Sink, addresses: AmAddresses = NOT_LISTENING) -> None:
        if self._am_pod_watch:
            return
        self._sink, self._am_address = sink, addresses.am
        listens = {"pid": 0, "host": self._host, "attempt": self.attempt, "address": addresses.am}
        self._publisher.start({**listens, "dialed_by": self.dialed_by} if addresses.am else None)
        self._am_pod_watch = asyncio.get_running_loop().create_task(self._am_pod.watch())
        if self._tokens:
            self._tokens.start()

    async def watch(self) -> None:
        await self._am_pod.is_left.wait()
        raise AttemptSupersededError("its pod is being deleted, so the next AM attempt continues the job")

    def is_current_attempt(self) -> bool:
        return self._am_pod.is_current

    async def recover(self, known: Sequence[KnownContainer]) -> Sequence[str]:
        for each in known:
            memory = each.memory or self._memory[each.role]
            pod = TaskPod(each.id, each.role, memory, PodStage.GRANTED, each.host, is_used=True)
            self._table.pods[each.id] = pod
            self.add_container(each.id)
            if each.executor_pid is not None:
                self._note_enlisted(pod)
        listed = await self._requests.list()
        found = {str(each["metadata"]["name"]): each for each in listed.items}
        self._gangs.recover(self._table.pods.values(), found)
        running = {name for name, each in found.items() if not pod_status.has_executor_ended(each)}
        # The kubelet removes a pod when its processes have exited; who removes it by force says that they have.
        for pod in [pod for pod in self._table.pods.values() if pod.name not in running]:
            self._end(pod, found.get(pod.name, {"metadata": {"name": pod.name}}))
        for pod in [pod for pod in self._table.pods.values() if not pod.has_enlisted]:
            if find_am_address(found[pod.name]) != self._am_address:
                cause = "its executor knows only the address of the previous application master"
                self._replace(pod, cause, found[pod.name])
        for pod in self._table.pods.values():
            self._note_deletion(pod, found[pod.name])
        kept = [*self._table.pods]
        for name in running - self._table.pods.keys():
            self._adopt_or_delete(name, found[name])
        self._watch = start_pod_watch(self._client, self._labels, listed, self._on_change)
        self._requests.watch = self._watch
        self._recovered.set()
        return kept

    def _adopt_or_delete(self, name: str, content: Object) -> None:
        """Keep a pod that was not known to be granted, unless it is of a gang, or cannot enlist here."""
        role = str(content["metadata"]["labels"].get(ROLE_LABEL))
        is_ours = not self._is_closing and role in self._memory and find_am_address(content) == self._am_address
        if not is_ours or content["metadata"].get("deletionTimestamp") or find_gang_name(content):
            self._start(self._requests.delete(name))
            return
        self._table.pods[name] = TaskPod(name, role, self._memory[role], PodStage.PENDING)
        self.add_container(name)
        self._on_change(ObjectChange(Change.PRESENT, content))

    def _replace(self, pod: TaskPod, cause: str, content: Object | None, *, is_blameless: bool = True) -> None:
        """Replace a pod that is of no use; it is deleted as an orphan. Without content its node is lost."""
        self._forget(pod)
        confirmation = EndConfirmation.ENDED if content else EndConfirmation.UNCONFIRMED
        event = ContainerEnded(container=pod.name, cause=cause, blameless=is_blameless, confirmation=confirmation)
        self.end_container(event, self._sink)
        self._gangs.note_end(pod, content)

    def _leave_node(self, pod: TaskPod, cause: str) -> None:
        """Delete a pod that its node cannot start; at its end, the core requests another one."""
        pod.is_leaving_node = True
        self._delete(pod, cause)

    def set_demand(self, role: str, total: int) -> None:
        self._table.demand[role] = total
        asyncio.get_running_loop().call_soon(self._review)  # with the demand of other roles: they may form a gang

    def set_memory(self, role: str, memory: int) -> None:
        self._memory[role] = memory

    def _review_soon(self) -> None:
        """Look at all pods once for all that change until then."""
        if self._reviewing is None:
            self._reviewing = asyncio.get_running_loop().call_later(_REVIEW_SECONDS, self._review)

    def _review(self) -> None:
        """Create missing pods, delete those that are not needed, and note why others wait."""
        self._reviewing = None
        if self._is_closing or not self._table.demand:
            return
        pods = self._table.pods.values()
        for role in self._memory:
            self._drop(self._table.list_surplus(role))
        self._drop(self._gangs.list_stranded(pods, self._table.count_missing()))
        for role, gang in self._gangs.assign(pods, self._table.count_missing(), self._memory):
            prefix = build_pod_name_prefix(self._job.record.job_id, role)
            pod = TaskPod(f"{prefix}-{os.urandom(4).hex()}", role, self._memory[role], gang=gang)
            self._table.pods[pod.name] = pod
            self.add_container(pod.name)  # its executor may enlist before its grant is seen here
            self._start(self._create(pod))
        self._note_pending()

    async def _create(self, pod: TaskPod) -> None:
        try:
            is_sent = await self._send(pod)
        except SchedulerError as error:
            is_needed = pod.stage is PodStage.CREATING
            self._discard(pod)
            if is_needed:
                reason = error.text if isinstance(error, KubeApiError) else str(error)
                self._sink(Unsatisfiable(role=pod.role, reason=reason))
            return
        if pod.stage is PodStage.CREATING:
            pod.stage = PodStage.PENDING
        elif not pod.node and pod.name in self._table.pods:  # the demand was lowered meanwhile
            if is_sent:
                await self._requests.delete(pod.name)
            self._discard(pod)

    async def _send(self, pod: TaskPod) -> bool:
        """Create a pod, after its gang; return True if it may have been created."""
        if (gang := pod.gang) and self._gangs.kind is GangKind.POD_GROUP:
            is_created = await self._pod_groups.create(gang, partial(self._table.is_creating, gang))
            gang = gang if is_created else None
        return await self._requests.create(pod, lambda: self._build(pod, gang))

    def _build(self, pod: TaskPod, gang: Gang | None) -> Object:
        pod.avoided = self._excluded.all
        return build_task_pod(
            self._job.record,
            pod.role,
            pod.name,
            self._settings,
            runtime=(self._payload.runtime, self._payload.objects[self._payload.runtime]),
            plug_in=(plug_in, self._payload.objects[plug_in]) if (plug_in := self._payload.plug_in) else None,
            pieces=self._payload.objects,
            images=self._payload.images,
            am_address=self._am_address,
            owner=self._payload.owner,
            memory=pod.memory,
            excluded=pod.avoided,
            gang=self._gangs.build_pod_fields(pod.role, gang),
        )

    def _discard(self, pod: TaskPod) -> None:
        self._forget(pod)
        self.remove_container(pod.name)

    def _forget(self, pod: TaskPod) -> None:
        pod.stage = PodStage.ENDING  # it is no longer to be created
        self._table.pods.pop(pod.name, None)
        if pod.gang and self._gangs.kind is GangKind.POD_GROUP and not self._table.list_members(pod.gang):
            self._start(self._pod_groups.delete(pod.gang))
        self._changed.set()

    # --- changes of pods ----------------------------------------------------------------------------------------------

    def _on_change(self, change: ObjectChange) -> None:
        name, is_deleted = str(change.content["metadata"]["name"]), change.change is Change.DELETED
        pod = self._table.pods.get(name)
        has_ended = is_deleted or pod_status.has_executor_ended(change.content)
        if pod is None:
            if has_ended and name in self._lost:
                self._sink(pod_status.build_end_event(self._lost.pop(name), change.content))
            self._delete_unknown(change)
            if self._gangs.note_phase(name, change.content, is_deleted=is_deleted):
                self._review_soon()
            return
        pod.is_seen = True
        if has_ended:
            self._end(pod, change.content)
            if is_deleted:  # no later change frees its place in its gang
                self._gangs.note_phase(name, change.content, is_deleted=True)
            return
        self._note_deletion(pod, change.content)
        if pod.stage in (PodStage.CREATING, PodStage.PENDING):
            if pod_status.is_scheduled(change.content):
                self._grant(pod, str(change.content["spec"]["nodeName"]))
            else:
                pod.is_gated = pod_status.is_gated(change.content)
                pod.pending_reason = pod_status.find_pending_reason(change.content)
                self._review_soon()
        if pod.stage is PodStage.GRANTED and not pod.has_enlisted:
            self._start_failures.note(pod, pod_status.find_start_failure(change.content))

    def _note_deletion(self, pod: TaskPod, content: Object) -> None:
        """Limit the time for which a pod that is being deleted is waited for: a lost node never removes it."""
        if content["metadata"].get("deletionTimestamp"):
            loop = asyncio.get_running_loop()
            seconds = int(content["metadata"].get("deletionGracePeriodSeconds") or 0) + _REMOVAL_SECONDS
            if (lost_at := loop.time() + seconds) < pod.lost_at:
                pod.lost_at = lost_at
                loop.call_at(lost_at, self._give_up_lost, pod)

    def _give_up_lost(self, pod: TaskPod) -> None:
        if self._table.pods.get(pod.name) is pod:
            self._lost[pod.name] = pod
            cause = f"{pod.kill_reason}; " if pod.is_leaving_node else ""
            cause = f"{cause}its node {pod.node} does not respond"
            self._replace(pod, cause, None, is_blameless=not pod.is_leaving_node)
            self._review_soon()

    def _delete_unknown(self, change: ObjectChange) -> None:
        """Delete a pod that a request of the AM attempt before has created since."""
        is_running = change.change is Change.PRESENT and not pod_status.has_executor_ended(change.content)
        if is_running and not change.content["metadata"].get("deletionTimestamp"):
            self._start(self._requests.delete(str(change.content["metadata"]["name"])))

    def _grant(self, pod: TaskPod, node: str) -> None:
        pod.stage, pod.node = PodStage.GRANTED, node
        self._excluded.note_node(node, pod.avoided)  # first, or the core would leave the pod at once
        self._sink(Granted(container=pod.name, role=pod.role, host=node, memory=pod.memory))
        if self._queued and not self._table.has_waiting():
            self._note_queued("")

    def _note_pending(self) -> None:
        self._queue_watch.start()
        reason = self._table.find_pending_reason(self._queue_watch.reason)
        if reason or not self._table.has_waiting():
            self._note_queued(reason)

    def _note_queued(self, reason: str) -> None:
        if reason != self._queued:
            self._queued = reason
            self._sink(Queued(reason=reason))

    def find_start_failure(self, container: str) -> str:
        return pod.describe_start_failure() if (pod := self._table.pods.get(container)) else ""

    async def enlist(self, container: str, process: str) -> TaskLaunch:
        await self._recovered.wait()  # it may be in a pod that is adopted
        if pod := self._table.pods.get(container):
            self._note_enlisted(pod)
            if pod.kill_reason:
                raise SchedulerError(f"container {container} is being deleted: {pod.kill_reason}")
        return await super().enlist(container, process)

    def _note_enlisted(self, pod: TaskPod) -> None:
        pod.has_enlisted = True
        self._start_failures.note_started(pod.role)

    def _end(self, pod: TaskPod, content: Object) -> None:
        if pod.stage is not PodStage.ENDING and not pod.has_enlisted:
            self._start_failures.note(pod, pod_status.find_start_failure(content))
        self._forget(pod)
        self.end_container(pod_status.build_end_event(pod, content), self._sink if pod.node else _ignore)
        self._gangs.note_end(pod, content)
        self._review_soon()

    # --- tasks --------------------------------------------------------------------------------------------------------

    async def launch(self, container: str, task: TaskPart, credentials: AmCredentials) -> None:
        if pod := self._table.pods.get(container):
            pod.is_used = True
        await super().launch(container, task, credentials)

    def release(self, container: str, timeout: float) -> None:
        if (pod := self._table.release(container)) is None:
            return
        if not (pod.is_used and pod.has_enlisted):  # there is no executor to be asked
            self._drop([pod])
            return
        pod.stage = PodStage.ENDING
        loop = asyncio.get_running_loop()
        if (release_at := loop.time() + timeout) < pod.release_at:
            pod.release_at = release_at
            loop.call_at(release_at, self.kill, container, f"its executor did not exit within {timeout:g} s")

    def kill(self, container: str, reason: str) -> None:
        if pod := self._table.release(container):
            self._delete(pod, reason)

    def _delete(self, pod: TaskPod, reason: str) -> None:
        pod.stage, pod.kill_reason = PodStage.ENDING, reason
        self._requests.wake()
        self._start(self._requests.delete(pod.name))

    def _drop(self, pods: Iterable[TaskPod]) -> None:
        for pod in pods:
            is_requested = pod.stage is not PodStage.CREATING
            pod.stage = PodStage.ENDING
            self._requests.wake()
            if is_requested:
                self._start(self._requests.delete(pod.name))

    def exclude(self, host: str) -> None:
        self._excluded.exclude(host)

    def include(self, host: str) -> None:
        self._excluded.include(host)

    # --- the end ------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        self._is_closing = True
        self._sink = _ignore
        for name in [*self._table.pods]:
            self.kill(name, "the job has ended")
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                if self._watch is None and self.attempt != 1:  # pods of earlier AM attempts may be left
                    with contextlib.suppress(SchedulerError):
                        await self.recover(())
                while (self._watch and self._table.pods) or self._tasks:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            _log.error("%d pods have not ended: %s", len(self._table.pods), ", ".join(sorted(self._table.pods)[:5]))
        if self._watch:
            self._watch.stop()
        self._queue_watch.stop()
        if self._am_pod_watch:
            self._am_pod_watch.cancel()

    async def finish(self, report: JobReport) -> None:
        await self._publisher.finish(self._journal)
        kill = report.failure if report.state is JobState.KILLED else None
        is_last = await self._am_pod.forbid_replacement(kill.reason if kill else "")
        if self._tokens:
            await self._tokens.cancel()
        if is_last:
            await self._am_pod.delete_secrets()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start requests about a pod; `close` waits for them."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: self._changed.set())


def _ignore(event: Event) -> None:
    """Take an event about which the AM need not know."""
