"""Kueue, as far as tony knows it: its queues, and what it says about a group of pods that waits.

Sources: apis/kueue/v1beta1/workload_types.go and localqueue_types.go of Kueue v0.14. The Workload of a pod group has
the group's name.
"""

from __future__ import annotations

from collections.abc import Sequence

from tony.errors import Problem
from tony.kube.api_client import ApiClient
from tony.kube.errors import KubeApiError, KubeError
from tony.kube.resources import ApiResource
from tony.schedulers.kubernetes.pod_ends import clean_text

_API, _VERSION = "kueue.x-k8s.io", "v1beta1"
_LOCAL_QUEUES = ApiResource(group=_API, version=_VERSION, plural="localqueues", kind="LocalQueue")
_WORKLOADS = ApiResource(group=_API, version=_VERSION, plural="workloads", kind="Workload")


def find_queue_problems(client: ApiClient, queue: str) -> Sequence[Problem]:
    """Return why a queue cannot be used; nothing if the user may not know."""
    key = "scheduler.kubernetes.queue"
    if _VERSION not in client.find_versions(_API, _LOCAL_QUEUES.plural):
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
            return clean_text(each.get("message") or "")
    return ""
