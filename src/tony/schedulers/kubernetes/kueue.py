"""Kueue, as far as tony knows it: its queues, and what it says about a group of pods that waits.

Sources: apis/kueue/v1beta1/workload_types.go and localqueue_types.go of Kueue v0.14. The Workload of a pod group has
the group's name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from tony.control_characters import escape_line
from tony.errors import Problem
from tony.kube.api_client import ApiClient
from tony.kube.errors import KubeApiError, KubeError
from tony.kube.resources import ApiResource
from tony.linux.thread_pools import to_thread
from tony.schedulers.kubernetes.pod_table import PodTable

_API, _VERSION = "kueue.x-k8s.io", "v1beta1"
_LOCAL_QUEUES = ApiResource(group=_API, version=_VERSION, plural="localqueues", kind="LocalQueue")
_WORKLOADS = ApiResource(group=_API, version=_VERSION, plural="workloads", kind="Workload")
#: Seconds between two requests for what Kueue says.
_QUEUE_SECONDS = 2.0


def find_queue_problems(client: ApiClient, queue: str) -> Sequence[Problem]:
    """Return why a queue cannot be used; nothing if the user may not know."""
    key = "scheduler.kubernetes.queue"
    if client.find_version(_API, _LOCAL_QUEUES.plural, (_VERSION,)) is None:
        return [Problem(key=key, value=queue, message=f"the cluster has no Kueue with {_API}/{_VERSION}")]
    try:
        client.get(_LOCAL_QUEUES, queue)
    except KubeApiError as error:
        if error.is_missing:
            text = f"namespace {client.namespace} has no such LocalQueue; see: kubectl get localqueues"
            return [Problem(key=key, value=queue, message=text)]
        if error.status != 403:
            raise
    return ()


def find_wait_reason(client: ApiClient, group: str) -> str:
    """Return why a group of pods waits, in Kueue's words; empty if it does not, or that is not known."""
    try:
        status = client.get(_WORKLOADS, group).get("status") or {}
    except KubeError:
        return ""
    for each in status.get("conditions") or ():
        if each.get("type") == "QuotaReserved" and each.get("status") == "False":
            return escape_line(each.get("message") or "")
    return ""


class QueueWatch:
    """Looks again and again for what Kueue says about the gang whose pods wait for it.

    Args:
        queue: empty without Kueue.
        on_reason: called each time.

    Attributes:
        reason: why they wait; empty as long as none does; None without Kueue.
    """

    def __init__(self, client: ApiClient, queue: str, table: PodTable, on_reason: Callable[[], None]) -> None:
        self._client, self._queue, self._table, self._on_reason = client, queue, table, on_reason
        self._task: asyncio.Task[None] | None = None
        self.reason: str | None = "" if queue else None

    def start(self) -> None:
        """Start, if pods wait."""
        if self._queue and self._task is None and self._table.list_gated():
            self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Stop."""
        if self._task:
            self._task.cancel()

    async def _run(self) -> None:
        while gated := self._table.list_gated():
            names = [pod.gang.name for pod in gated if pod.gang]
            reason = await to_thread(find_wait_reason, self._client, names[0]) if names else ""
            if reason or not self.reason:
                self.reason = f"Kueue: {reason or f'queue {self._queue} has not admitted it yet'}"
            self._on_reason()
            await asyncio.sleep(_QUEUE_SECONDS)
        self._task, self.reason = None, ""
