"""What the status of a pod says: it waits, it can never start, it has ended and why. Pure.

Sources, of Kubernetes v1.36: reasons of the condition DisruptionTarget in pkg/scheduler/framework/preemption,
pkg/kubelet/eviction, pkg/controller/tainteviction, pkg/controller/podgc, pkg/registry/core/pod/storage/eviction.go;
waiting reasons in pkg/kubelet/images/types.go and pkg/kubelet/kuberuntime; of Kueue v0.14:
pkg/controller/jobs/pod/pod_controller.go.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tony.control_characters import escape_line
from tony.core.events import ContainerEnded, EndConfirmation
from tony.kube.api_client import Object
from tony.linux.process import format_signal
from tony.model.failure import ClusterKill
from tony.schedulers.kubernetes.launch_payload import CONTAINER_NAME
from tony.schedulers.kubernetes.pod_table import StartFailure, TaskPod
from tony.units import format_bytes

#: Reasons of a disruption -> why the pod ended, and how the cluster killed it.
_DISRUPTIONS: Mapping[str, tuple[str, ClusterKill]] = {
    "PreemptionByScheduler": ("it was preempted for a pod of higher priority", ClusterKill.PREEMPTED),
    "PreemptionByKubeScheduler": ("it was preempted for a pod of higher priority", ClusterKill.PREEMPTED),
    "EvictionByEvictionAPI": ("it was evicted: its node is being drained", ClusterKill.OTHER),
    "DeletionByTaintManager": ("its node has a taint that it does not tolerate", ClusterKill.OTHER),
    "DeletionByPodGC": ("its node was lost", ClusterKill.OTHER),
    "TerminationByKubelet": ("its node ran out of resources", ClusterKill.OTHER),
}
#: Reasons for which a container waits, and never starts without a change of the job or the cluster.
_CANNOT_START = frozenset({"InvalidImageName", "ErrImageNeverPull", "RunContainerError", "StartError"})
_CANNOT_PULL = frozenset({"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError"})
#: Reasons that may pass: a registry that does not answer, a Secret that was not fetched in time, a busy node.
_MAY_PASS = _CANNOT_PULL | {"CreateContainerConfigError", "CreateContainerError"}
#: Those of which the node may be the cause: a device that it cannot give to a container, for example.
_NODE_FAILURES = frozenset({"CreateContainerError"})
#: What the kubelet puts before the error of the last try.
_BACK_OFF = re.compile(r'Back-off pulling image "[^"]*": (?:\w+: )?')
#: Words of a containerd before 2.1, to which a volume of an image has no source.
_NO_IMAGE_VOLUMES = 'failed to mkdir ""'
#: Name of a container in words of containerd. Each try has another one, and so another sentence.
_CONTAINER_ID = re.compile(r' "[0-9a-f]{64}"')
_NO_PYTHON = re.compile(r'exec: "python3": .*not found')
#: What follows the scheduler's words about nodes: what it would gain by preemption.
_PREEMPTION = re.compile(r"\.? (?:no new claims to deallocate, )?preemption: .*|\. not found\.?$")
#: A resource of which the scheduler finds no node with enough.
_INSUFFICIENT = re.compile(r"Insufficient ([\w./-]+)")
#: Words of the scheduler -> settings that decide it.
_PLACEMENT_SETTINGS: Mapping[str, str] = {
    "Insufficient memory": "`memory`",
    "Insufficient cpu": "`vcores`",
    "untolerated taint": "`tolerations`",
    "node affinity/selector": "`node_selector` and `node_label`",
    "pod anti-affinity rules": "`spread`",
    "pod affinity rules": "`topology`",
    "unbound immediate PersistentVolumeClaims": "`volumes`",
}
#: Marks of an eviction that is the job's own fault. It has no disruption.
_OWN_STORAGE = (
    "ephemeral local storage usage exceeds",
    "exceeded its local ephemeral storage limit",
    "Usage of EmptyDir volume",
)
#: Messages of a taint of a node that does not answer, whose pods may still run.
_LOST_TAINTS = ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")
#: Condition that Kueue sets before it deletes a pod.
_KUEUE_CONDITION = "TerminationTarget"
#: Exit codes of an executor that was stopped by a signal: the AM stops executors by a message, or deletes their pods.
_STOPPED_EXIT_CODES = (128 + signal.SIGTERM, 128 + signal.SIGKILL)
#: Words of registries that have no such image, or do not give it to this user.
_REFUSED_PULL = re.compile(
    "not ?found|unknown|denied|unauthori[sz]ed|unauthenticated|authorization|no such host", re.IGNORECASE
)
_RATE_LIMIT = re.compile("429|too ?many ?requests", re.IGNORECASE)
#: Seconds for which a failure may pass. That of a pull is reported until the next one is complete, which takes long.
_REFUSED_SECONDS = 60.0
_PULL_SECONDS = 900.0
_MAX_CHARACTERS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEnd:
    """Why a pod ended.

    Attributes:
        cause: one sentence.
        is_blameless: it was not the job's fault.
        kill: set if the cluster killed it.
        is_unconfirmed: its node is lost, so that its program may still run.
    """

    cause: str
    is_blameless: bool = False
    kill: ClusterKill | None = None
    is_unconfirmed: bool = False


def is_scheduled(pod: Object) -> bool:
    """Return True if the pod has a node."""
    return bool(pod.get("spec", {}).get("nodeName")) and bool(pod.get("status", {}).get("phase"))


def has_ended(pod: Object) -> bool:
    """Return True if the pod has no process left, or its node is lost.

    One that is being deleted gets no node, but may have finalizers, such as that of Kueue.
    """
    if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return True
    return bool(pod.get("metadata", {}).get("deletionTimestamp")) and not pod.get("spec", {}).get("nodeName")


def has_executor_ended(pod: Object) -> bool:
    """Return True if a pod of a task has no process of tony's left, or its node is lost.

    The kubelet reports the phase a second after the end of the container, which is never started again. If that was
    evicted, the cause comes with the phase (pkg/kubelet/status/status_manager.go).
    """
    terminated = _get_container(pod).get("state", {}).get("terminated")
    return has_ended(pod) or (terminated is not None and not _lacks_cause(pod, terminated))


def _lacks_cause(pod: Object, terminated: Object) -> bool:
    """Return True if an executor was stopped from outside, and nothing says yet by what."""
    disruption = _find_condition(pod, "DisruptionTarget")
    is_known = pod.get("metadata", {}).get("deletionTimestamp") or disruption or is_evicted_by_kueue(pod)
    is_known = is_known or terminated.get("reason") == "OOMKilled"
    return terminated.get("exitCode") in _STOPPED_EXIT_CODES and not is_known


def find_pending_reason(pod: Object) -> str:
    """Return the scheduler's words for why a pod has no node; empty if it has one, or there is no reason yet."""
    condition = _find_condition(pod, "PodScheduled")
    if condition is None or condition.get("status") != "False":
        return ""
    text = _PREEMPTION.sub("", _clean_text(condition.get("message") or condition.get("reason") or ""))
    settings = [name for words, name in _PLACEMENT_SETTINGS.items() if words in text]
    if any("/" in name for name in _INSUFFICIENT.findall(text)):  # a device has the domain of its vendor
        settings.append("`gpus` and `resources`")
    if not settings:
        return text
    resources = _find_resources(pod)
    requested = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    missing = (name.rstrip(".") for name in _INSUFFICIENT.findall(text))
    amounts = [f"{_format_amount(name, requested[name])} of {name}" for name in missing if name in requested]
    asked = f"; a pod requests {', '.join(amounts)}" if amounts else ""
    return f"{text} (see {', '.join(settings)}{asked})"


def find_start_failure(pod: Object) -> StartFailure | None:
    """Return why a container cannot start; None if all may start."""
    for container in (*_list_init_containers(pod), _get_container(pod)):
        state = container.get("state", {})
        found = state.get("waiting") or state.get("terminated") or {}
        reason, whole = found.get("reason", ""), str(found.get("message") or "")
        message = _clean_text(_CONTAINER_ID.sub("", whole))
        if "waiting" not in state and not _NO_PYTHON.search(whole):  # its node may be the cause of other ends
            continue
        if reason in _CANNOT_START | _MAY_PASS:
            volume = _find_volume_image(pod, message)
            image = volume or container.get("image", "")
            text = _describe_start_failure(reason, message, image, is_volume=bool(volume))
            if container.get("name") != CONTAINER_NAME:
                text = f"init container {container.get('name')}: {text}"
            grace_seconds = _find_grace_seconds(reason, whole.replace(image, "") if image else whole)
            return StartFailure(text, grace_seconds, may_be_node_failure=reason in _NODE_FAILURES and grace_seconds > 0)
    return None


def _find_grace_seconds(reason: str, message: str) -> float:
    if reason not in _MAY_PASS or _NO_IMAGE_VOLUMES in message:
        return 0.0
    is_refused = _REFUSED_PULL.search(message) and not _RATE_LIMIT.search(message)
    return _PULL_SECONDS if reason in _CANNOT_PULL and not is_refused else _REFUSED_SECONDS


def _find_volume_image(pod: Object, message: str) -> str:
    """Return the image of a volume that a message names; empty if it names none."""
    images = [(volume.get("image") or {}).get("reference") for volume in pod.get("spec", {}).get("volumes") or ()]
    return next((image for image in images if image and image in message), "")


def _describe_start_failure(reason: str, message: str, image: str, *, is_volume: bool) -> str:
    if reason in _CANNOT_PULL:
        setting = "staging" if is_volume else "image"
        text = f"image {image} cannot be pulled (see `{setting}` and `pull_secrets`)"
        return f"{text}: {_BACK_OFF.sub('', message) or reason}"
    if _NO_IMAGE_VOLUMES in message:
        return "its node cannot mount images: a registry as `staging` needs containerd 2.1 or later there"
    if _NO_PYTHON.search(message):
        return f"image {image} cannot be used: it has no python3 on its PATH, and tony needs Python 3.11 or later"
    return f"{reason}: {message}" if message else reason


def has_succeeded(pod: Object) -> bool:
    """Return True if all containers of the pod exited with exit code 0."""
    return bool(pod.get("status", {}).get("phase") == "Succeeded")


def is_gated(pod: Object) -> bool:
    """Return True if the scheduler does not look at the pod yet, because something else, such as Kueue, has it wait."""
    condition = _find_condition(pod, "PodScheduled")
    return condition is not None and condition.get("reason") == "SchedulingGated"


def is_evicted_by_kueue(pod: Object) -> bool:
    """Return True if Kueue ends the pod, and with it its whole group."""
    condition = _find_condition(pod, _KUEUE_CONDITION)
    return condition is not None and condition.get("status") == "True"


def find_exit_code(pod: Object) -> int | None:
    """Return the exit code of tony's process in a pod; None if it has not exited."""
    code = (_get_container(pod).get("state", {}).get("terminated") or {}).get("exitCode")
    return None if code is None else int(code)


def explain_end(pod: Object) -> PodEnd:
    """Return why a pod has ended, or was deleted by others than the AM."""
    status = pod.get("status", {})
    message = _clean_text(status.get("message") or "")
    terminated = _get_container(pod).get("state", {}).get("terminated") or {}
    if terminated.get("reason") == "OOMKilled":
        limit = _find_memory_limit(pod)
        return PodEnd(
            cause=f"the kernel killed it at its memory limit{limit}: request more with `memory`",
            kill=ClusterKill.MEMORY_LIMIT,
        )
    disruption = _find_condition(pod, "DisruptionTarget")
    if disruption and disruption.get("status") == "True":
        return _explain_disruption(disruption, message)
    if is_evicted_by_kueue(pod):
        return _explain_kueue(_find_condition(pod, _KUEUE_CONDITION) or {})
    if status.get("reason") == "Evicted":
        is_own = any(mark in message for mark in _OWN_STORAGE)
        cause = f"its node evicted it: {message.rstrip('.')}{' (see `volumes` and `resources`)' if is_own else ''}"
        return PodEnd(cause=cause, is_blameless=not is_own, kill=ClusterKill.OTHER)
    if status.get("reason") == "DeadlineExceeded":
        return PodEnd(cause="its time limit in the cluster was exceeded", kill=ClusterKill.OTHER)
    if status.get("reason") == "NodeLost" or terminated.get("reason") == "ContainerStatusUnknown":
        return PodEnd(cause="its node was lost", is_blameless=True, kill=ClusterKill.OTHER, is_unconfirmed=True)
    if not terminated and (failure := _find_init_failure(pod)):
        return PodEnd(cause=failure)
    if not terminated and status.get("phase") == "Failed" and status.get("reason"):  # by the kubelet's admission
        cause = f"its node rejected it: {status['reason']}: {message}"
        is_shut_down = status["reason"] in ("NodeShutdown", "Terminated")  # it passes; others may repeat for ever
        return PodEnd(cause=cause, is_blameless=is_shut_down, kill=ClusterKill.OTHER if is_shut_down else None)
    start_failure = None if terminated else find_start_failure(pod)
    if start_failure and start_failure.may_be_node_failure:
        return PodEnd(cause=f"its node could not start its pod, which was deleted: {start_failure.text}")
    if not terminated or pod.get("metadata", {}).get("deletionTimestamp"):
        return PodEnd(cause="its pod was deleted", is_blameless=True, kill=ClusterKill.OTHER)
    return PodEnd(cause=_explain_exit(terminated))


def build_end_event(pod: TaskPod, content: Object) -> ContainerEnded:
    """Return the event by which the AM learns that a pod has ended, or was deleted.

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


def explain_am_end(pod: Object, state: str = "state", subject: str = "the application master") -> str:
    """Return how the AM in a pod ended, with the end of its log; empty if it did not, or succeeded.

    Args:
        state: the field of its container; `lastState` of the one before.
        subject: how the sentence names the AM.
    """
    terminated = (_get_container(pod).get(state) or {}).get("terminated") or {}
    if terminated.get("reason") == "OOMKilled":
        limit = _find_memory_limit(pod)
        remedy = "request more with `scheduler.kubernetes.am_memory`"
        return f"the kernel killed {subject} at its memory limit{limit}: {remedy}"
    return _describe_exit(subject, terminated) if terminated.get("exitCode") else ""


def explain_restart(pod: Object) -> str:
    """Return how the AM in a pod ended while the kubelet waits before it starts it again; empty if it does not."""
    is_waiting = "waiting" in (_get_container(pod).get("state") or {})
    last = explain_am_end(pod, "lastState", "it") if is_waiting else ""
    return f"its application master ended, and is started again: {last}" if last else ""


def find_failed_exit(pods: Sequence[Object], exit_code: int) -> str:
    """Return how the newest AM ended that has exited with this code, with the end of its log; empty if none has."""
    failed = [pod for pod in pods if find_exit_code(pod) == exit_code]
    return explain_am_end(failed[-1]) if failed else ""


def _explain_disruption(condition: Object, message: str) -> PodEnd:
    reason = condition.get("reason", "")
    cause, kill = _DISRUPTIONS.get(reason, (f"the cluster ended it ({_clean_text(reason)})", ClusterKill.OTHER))
    text = _clean_text(condition.get("message") or "") or message
    is_lost = reason == "DeletionByPodGC" or any(taint in text for taint in _LOST_TAINTS)
    return PodEnd(
        cause=f"{cause}: {text}" if text else cause,
        is_blameless=True,
        kill=kill,
        is_unconfirmed=is_lost,
    )


def _explain_kueue(condition: Object) -> PodEnd:
    kill = ClusterKill.PREEMPTED if condition.get("reason") == "WorkloadEvicted" else ClusterKill.OTHER
    return PodEnd(cause=f"Kueue ended it: {_clean_text(condition.get('message') or '')}", is_blameless=True, kill=kill)


def _explain_exit(terminated: Object) -> str:
    return _describe_exit("its executor", terminated) if terminated.get("exitCode") else "its executor exited"


def _find_init_failure(pod: Object) -> str:
    """Return which init container of the job's `template` failed, and how; empty if none did."""
    for container in _list_init_containers(pod):
        terminated = container.get("state", {}).get("terminated") or {}
        if terminated.get("exitCode"):
            return _describe_exit(f"its init container {container.get('name')}", terminated)
    return ""


def _describe_exit(what: str, terminated: Object) -> str:
    code, number = terminated["exitCode"], terminated.get("signal") or terminated["exitCode"] - 128
    is_signal = number in signal.valid_signals()
    how = f"was killed by {format_signal(number)}" if is_signal else f"exited with exit code {code}"
    last = _clean_text(terminated.get("message") or "")
    return f"{what} {how}{f': {last}' if last else ''}"


def _find_memory_limit(pod: Object) -> str:
    limit = (_find_resources(pod).get("limits") or {}).get("memory", "")
    return f" ({_format_amount('memory', limit)})" if limit else ""


def _find_resources(pod: Object) -> Object:
    """Return requests and limits of the container that tony starts."""
    found = (each for each in pod.get("spec", {}).get("containers") or () if each.get("name") == CONTAINER_NAME)
    container: Object = next(found, {})
    return container.get("resources") or {}


def _format_amount(resource: str, amount: str) -> str:
    return format_bytes(int(amount)) if resource == "memory" and amount.isdecimal() else amount


def _list_init_containers(pod: Object) -> Sequence[Object]:
    return pod.get("status", {}).get("initContainerStatuses") or ()


def _get_container(pod: Object) -> Object:
    for each in pod.get("status", {}).get("containerStatuses") or ():
        if each.get("name") == CONTAINER_NAME:
            return dict(each)
    return {}


def _find_condition(pod: Object, kind: str) -> dict[str, Any] | None:
    return next((each for each in pod.get("status", {}).get("conditions") or () if each.get("type") == kind), None)


def _clean_text(text: str) -> str:
    return escape_line(text, _MAX_CHARACTERS)
