"""The event by which the AM learns that a pod has ended. Pure."""

from __future__ import annotations

from tony.core.events import ContainerEnded, EndConfirmation
from tony.kube.api_client import Object
from tony.schedulers.kubernetes.pod_ends import explain_end
from tony.schedulers.kubernetes.pod_table import TaskPod


def build_end_event(pod: TaskPod, content: Object) -> ContainerEnded:
    """Return the event for a pod that has ended, or was deleted.

    Args:
        content: as the cluster had it last.
    """
    found = explain_end(content)
    is_own = bool(pod.kill_reason)
    return ContainerEnded(
        container=pod.name,
        cause=f"it was stopped: {pod.kill_reason}" if is_own else found.cause,
        blameless=found.is_blameless and not is_own,
        kill=None if is_own else found.kill,
        confirmation=EndConfirmation.UNCONFIRMED if found.is_unconfirmed else EndConfirmation.ENDED,
    )
