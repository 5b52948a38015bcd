"""The application master's half on Kubernetes: its pods, and its job's files in ConfigMaps.

Requests to the API server are made in threads; the table of pods changes on the AM's event loop only.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from tony.core.events import ContainerEnded, EndConfirmation, Event, Excluded, Granted, Queued, Unsatisfiable
from tony.kube.api_client import ApiClient, Object
from tony.kube.errors import AnswerLostError, KubeApiError, KubeError
from tony.kube.object_watch import Change, ObjectChange, ObjectWatch
from tony.kube.resources import JOBS, PODS
from tony.kube.service_account import load_service_account
from tony.linux.thread_pools import to_thread
from tony.model.job_report import JobReport
from tony.model.state_directory import build_segment_name
from tony.model.states import JobState
from tony.protocol.launch import AmCredentials, TaskPart
from tony.retry import Backoff
from tony.schedulers.allocator_interface import (
    NOT_LISTENING,
    AmAddresses,
    Journal,
    KnownContainer,
    SignalEffect,
    Sink,
)
from tony.schedulers.client_interface import PreparedJob
from tony.schedulers.enlisting_allocator import EnlistingAllocator
from tony.schedulers.job_store.config_map_job_store import JOB_LABEL, ConfigMapJobStore
from tony.schedulers.job_store.event_log_replication import ReplicatedJournal
from tony.schedulers.job_store.record_download import PreviousAttempts
from tony.schedulers.job_store.record_publisher import RecordPublisher
from tony.schedulers.kubernetes import pod_ends
from tony.schedulers.kubernetes.capabilities import CAPABILITIES
from tony.schedulers.kubernetes.launch_payload import AmPayload
from tony.schedulers.kubernetes.manifests import (
    FAILED_EXIT_CODE,
    PART_LABEL,
    TASK_PART,
    build_pod_name_prefix,
    build_task_pod,
)
from tony.schedulers.kubernetes.pod_table import PodStage, PodTable, TaskPod
from tony.schedulers.kubernetes.settings import read_settings

#: Requests that create pods at one time.
_MAX_CONCURRENT_REQUESTS = 16
_BACKOFF = Backoff(first=0.5, most=30.0, jitter=0.5)
#: Seconds for which an image that cannot be pulled is waited for.
_PULL_SECONDS = 60.0
#: Grace of a pod that is killed: with 0 the object would be removed before its processes are.
_KILL_GRACE_SECONDS = 1
#: Seconds for the event logs of earlier AM attempts, and at the end for the pods.
_STORE_SECONDS = 60.0
_CLOSE_SECONDS = 60.0
#: Seconds after which Kubernetes replaces the pod of an AM whose node does not answer, at the least.
_OVERLAP_SECONDS = 30.0
_log = logging.getLogger(__name__)


class KubernetesAllocator(EnlistingAllocator):
    """Pods of one namespace, for the application master that runs in one of them.

    Args:
        host: address of the AM's pod.
        client: of the API server; None: by the service account of this pod.
    """

    capabilities = CAPABILITIES
    stores_metrics = True
    dialed_by = "kubernetes"
    overlap = _OVERLAP_SECONDS

    def __init__(self, job: PreparedJob, payload: AmPayload, host: str, client: ApiClient | None = None) -> None:
        super().__init__(job)
        self._job, self._payload, self._host = job, payload, host
        self._settings, _ = read_settings(job.record.spec.scheduler_settings)
        self._client = client or ApiClient(load_service_account(os.environ))
        self._store = ConfigMapJobStore(self._client, job.record.job_id, payload.owner)
        self.attempt = self._store.claim_attempt(build_segment_name)
        self._publisher = RecordPublisher(
            self._store, payload.record, payload.credentials.executors, job.folder, job.folder.am_log
        )
        self._journal: ReplicatedJournal | None = None
        self._table = PodTable()
        self._memory = {name: role.resources.memory for name, role in job.record.spec.effective_roles.items()}
        self._excluded: list[str] = []
        self._sink: Sink = _ignore
        self._am_address = ""
        self._queued = ""
        self._watch: ObjectWatch | None = None
        self._slots = asyncio.Semaphore(_MAX_CONCURRENT_REQUESTS)
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closing = False
        self._changed = asyncio.Event()

    @property
    def host(self) -> str:
        return self._host

    @property
    def listen_host(self) -> str:
        return "::" if ":" in self._host else "0.0.0.0"  # port-forward arrives at the loopback address

    async def on_signal(self, number: int) -> SignalEffect:
        """Return END_JOB if the Job is being deleted: otherwise the pod moves to another node."""
        try:
            found = await to_thread(self._client.get, JOBS, self._job.record.job_id)
        except KubeApiError as error:
            return SignalEffect.END_JOB if error.is_missing else SignalEffect.LEAVE_JOB
        except KubeError:
            return SignalEffect.LEAVE_JOB
        is_deleted = found["metadata"].get("deletionTimestamp") is not None
        return SignalEffect.END_JOB if is_deleted else SignalEffect.LEAVE_JOB

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

    # --- the session --------------------------------------------------------------------------------------------------

    async def open(self, sink: Sink, addresses: AmAddresses = NOT_LISTENING) -> None:
        if self._watch:
            return
        self._sink, self._am_address = sink, addresses.am
        listens = {"pid": 0, "host": self._host, "attempt": self.attempt, "address": addresses.am}
        self._publisher.start({**listens, "dialed_by": self.dialed_by} if addresses.am else None)
        loop = asyncio.get_running_loop()

        def on_change(change: ObjectChange) -> None:
            loop.call_soon_threadsafe(self._on_change, change)

        labels = {JOB_LABEL: self._job.record.job_id, PART_LABEL: TASK_PART}
        self._watch = ObjectWatch(self._client, PODS, labels, on_change, _log_trouble)
        threading.Thread(target=self._watch.run, name="pod-watch", daemon=True).start()

    async def watch(self) -> None:
        if self._journal:
            await asyncio.shield(self._journal.lost)

    async def recover(self, known: Sequence[KnownContainer]) -> Sequence[str]:
        labels = {JOB_LABEL: self._job.record.job_id, PART_LABEL: TASK_PART}
        found = (await to_thread(lambda: self._client.list(PODS, labels=labels))).items
        pods = {str(each["metadata"]["name"]): each for each in found if not pod_ends.has_ended(each)}
        ours = []
        for container in known:
            pod = pods.pop(container.id, None)
            if pod is None or pod["metadata"].get("deletionTimestamp"):
                continue
            memory = container.memory or self._memory[container.role]
            entry = TaskPod(container.id, container.role, memory, PodStage.GRANTED, container.host, is_used=True)
            self._table.pods[container.id] = entry
            self.add_container(container.id)
            ours.append(container.id)
        for name in pods:
            self._start(self._delete(name))
        return ours

    def set_demand(self, role: str, total: int) -> None:
        self._table.demand[role] = total
        self._balance()

    def set_memory(self, role: str, memory: int) -> None:
        self._memory[role] = memory

    def _balance(self) -> None:
        """Create missing pods, and delete those that are not needed."""
        if self._is_closing:
            return
        for pod in self._table.list_surplus():
            self._drop(pod)
        for role, count in self._table.count_missing().items():
            for _ in range(count):
                prefix = build_pod_name_prefix(self._job.record.job_id, role)
                pod = TaskPod(f"{prefix}-{os.urandom(4).hex()}", role, self._memory[role])
                self._table.pods[pod.name] = pod
                self.add_container(pod.name)  # its executor may enlist before its grant is seen here
                self._start(self._create(pod))

    async def _create(self, pod: TaskPod) -> None:
        body = build_task_pod(
            self._job.record,
            pod.role,
            pod.name,
            self._settings,
            runtime=(self._payload.runtime, self._payload.objects[self._payload.runtime]),
            pieces=self._payload.objects,
            am_address=self._am_address,
            owner=self._payload.owner,
            memory=pod.memory,
            excluded=self._excluded,
        )
        is_sent = False
        for pause in _BACKOFF:
            if pod.stage is not PodStage.CREATING:
                break
            try:
                async with self._slots:
                    await to_thread(self._client.create, PODS, body)
            except AnswerLostError as error:
                is_sent = True  # created or not: the next request finds out
                _log.info("%s", error)
            except KubeApiError as error:
                if error.is_conflict:  # an answer was lost
                    is_sent = True
                    break
                if not self._may_create_later(error):
                    self._forget(pod)
                    self._sink(Unsatisfiable(role=pod.role, reason=error.text))
                    return
                self._note_queued(error.text)
            except KubeError as error:
                _log.warning("%s", error)
            else:
                is_sent = True
                break
            await asyncio.sleep(pause)
        if pod.stage is PodStage.CREATING:
            pod.stage = PodStage.PENDING
        elif pod.stage is PodStage.ENDING:  # the demand was lowered meanwhile
            if is_sent:
                await self._delete(pod.name)
            self._forget(pod)

    def _forget(self, pod: TaskPod) -> None:
        self._table.pods.pop(pod.name, None)
        self._changed.set()

    def _may_create_later(self, error: KubeApiError) -> bool:
        return error.is_passing or (error.status == 403 and "exceeded quota" in error.text)

    # --- changes of pods ----------------------------------------------------------------------------------------------

    def _on_change(self, change: ObjectChange) -> None:
        pod = self._table.pods.get(str(change.content["metadata"]["name"]))
        if pod is None:
            return
        if change.change is Change.DELETED or pod_ends.has_ended(change.content):
            self._end(pod, change.content)
            return
        if pod.stage in (PodStage.CREATING, PodStage.PENDING):
            if pod_ends.is_scheduled(change.content):
                self._grant(pod, str(change.content["spec"]["nodeName"]))
            elif reason := pod_ends.find_pending_reason(change.content):
                self._note_queued(reason)
        if pod.stage is PodStage.GRANTED and (failure := pod_ends.find_start_failure(change.content)):
            self._on_start_failure(pod, *failure)

    def _grant(self, pod: TaskPod, node: str) -> None:
        pod.stage, pod.node = PodStage.GRANTED, node
        self._sink(Granted(container=pod.name, role=pod.role, host=node, memory=pod.memory))
        if not any(each.stage in (PodStage.CREATING, PodStage.PENDING) for each in self._table.pods.values()):
            self._note_queued("")

    def _note_queued(self, reason: str) -> None:
        if reason != self._queued:
            self._queued = reason
            self._sink(Queued(reason=reason))

    def _on_start_failure(self, pod: TaskPod, reason: str, may_pass: bool) -> None:
        if may_pass:
            asyncio.get_running_loop().call_later(_PULL_SECONDS, self._give_up, pod, reason)
        else:
            self._give_up(pod, reason)

    def _give_up(self, pod: TaskPod, reason: str) -> None:
        """End a job whose pods cannot start, unless this one did."""
        if pod.stage is PodStage.GRANTED and not pod.is_used and pod.name in self._table.pods:
            self._sink(Unsatisfiable(role=pod.role, reason=reason))

    def _end(self, pod: TaskPod, content: Object) -> None:
        self._forget(pod)
        found = pod_ends.explain_end(content)
        event = ContainerEnded(
            container=pod.name,
            cause=f"it was stopped: {pod.kill_reason}" if pod.kill_reason else found.cause,
            blameless=found.is_blameless,
            kill=found.kill,
            confirmation=EndConfirmation.UNCONFIRMED if found.is_unconfirmed else EndConfirmation.ENDED,
        )
        self.end_container(event, self._sink if pod.node else _ignore)
        self._balance()

    # --- tasks --------------------------------------------------------------------------------------------------------

    async def launch(self, container: str, task: TaskPart, credentials: AmCredentials) -> None:
        if pod := self._table.pods.get(container):
            pod.is_used = True
        await super().launch(container, task, credentials)

    def release(self, container: str, timeout: float) -> None:
        pod = self._table.pods.get(container)
        if pod is None or pod.kill_reason:
            return
        if not pod.is_used:
            self._drop(pod)
            return
        pod.stage = PodStage.ENDING
        loop = asyncio.get_running_loop()
        if (release_at := loop.time() + timeout) < pod.release_at:
            pod.release_at = release_at
            loop.call_at(release_at, self._kill, container, f"its executor did not exit within {timeout:g} s")

    def kill(self, container: str, reason: str) -> None:
        self._kill(container, reason)

    def _kill(self, container: str, reason: str) -> None:
        pod = self._table.pods.get(container)
        if pod and not pod.kill_reason:
            pod.stage, pod.kill_reason = PodStage.ENDING, reason
            self._start(self._delete(container))

    def _drop(self, pod: TaskPod) -> None:
        is_requested = pod.stage is not PodStage.CREATING
        pod.stage = PodStage.ENDING
        if is_requested:
            self._start(self._delete(pod.name))

    async def _delete(self, name: str) -> None:
        for pause in _BACKOFF:
            try:
                return await to_thread(lambda: self._client.delete(PODS, name, grace_seconds=_KILL_GRACE_SECONDS))
            except KubeError as error:
                _log.warning("%s", error)
            await asyncio.sleep(pause)

    def exclude(self, host: str) -> None:
        if host not in self._excluded:
            self._excluded.append(host)
            self._sink(Excluded(hosts=tuple(self._excluded)))

    def include(self, host: str) -> None:
        if host in self._excluded:
            self._excluded.remove(host)
            self._sink(Excluded(hosts=tuple(self._excluded)))

    # --- the end ------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        self._is_closing = True
        self._sink = _ignore
        for name in [*self._table.pods]:
            self._kill(name, "the job has ended")
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                while self._table.pods:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            _log.error("%d pods have not ended: %s", len(self._table.pods), ", ".join(sorted(self._table.pods)[:5]))
        if self._watch:
            self._watch.stop()

    async def finish(self, report: JobReport) -> None:
        await self._publisher.finish(self._journal)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _ignore(event: Event) -> None:
    """Take an event about which the AM need not know."""


def _log_trouble(error: KubeError | None) -> None:
    if error is not None:
        _log.warning("%s", error)
