"""What an AM keeps of its pods, and their changes, brought to its event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from tony.kube.api_client import ApiClient, Object, ObjectList
from tony.kube.errors import KubeError
from tony.kube.object_watch import ObjectChange, ObjectWatch
from tony.kube.resources import PODS
from tony.linux.thread_pools import call_on_loop
from tony.schedulers.kubernetes.launch_payload import AM_ADDRESS, CONTAINER_NAME

#: Fields of a pod that the AM looks at, and of the container of its executor.
_METADATA = ("name", "uid", "labels", "annotations", "deletionTimestamp", "deletionGracePeriodSeconds")
_SPEC = ("nodeName", "schedulingGroup")
_STATUS = ("phase", "reason", "message", "containerStatuses", "initContainerStatuses")
_CONTAINER = ("name", "resources")
#: Conditions that it does not look at.
_UNUSED_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
_log = logging.getLogger(__name__)


def start_pod_watch(
    client: ApiClient, labels: Mapping[str, str], listed: ObjectList, on_change: Callable[[ObjectChange], None]
) -> ObjectWatch:
    """Watch the pods with some labels in a thread.

    Args:
        listed: trimmed pods, whose changes since then are reported.
        on_change: called with trimmed pods on the running event loop, until that has ended.
    """
    loop = asyncio.get_running_loop()

    def note(change: ObjectChange) -> None:
        call_on_loop(loop, on_change, change)

    watch = ObjectWatch(client, PODS, labels, note, _log_trouble, trim_pod)
    watch.note_list(listed)
    threading.Thread(target=watch.run, name="pod-watch", daemon=True).start()
    return watch


def trim_pod(pod: Object) -> Object:
    """Return what the AM needs of a pod: a tenth of it, as a restarted AM lists thousands."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    containers = [each for each in spec.get("containers") or () if each.get("name") == CONTAINER_NAME]
    images = [each for each in spec.get("volumes") or () if each.get("image")]
    conditions = [each for each in status.get("conditions") or () if each.get("type") not in _UNUSED_CONDITIONS]
    return {
        "metadata": _select(pod["metadata"], _METADATA),
        "spec": {**_select(spec, _SPEC), "containers": [*map(_trim_container, containers)], "volumes": images},
        "status": {**_select(status, _STATUS), "conditions": conditions},
    }


def _trim_container(container: Object) -> Object:
    variables = [each for each in container.get("env") or () if each.get("name") == AM_ADDRESS]
    return {**_select(container, _CONTAINER), "env": variables}


def _select(content: Object, names: Sequence[str]) -> Object:
    return {name: content[name] for name in names if name in content}


def _log_trouble(error: KubeError | None) -> None:
    """Log why changes of pods are not seen now."""
    if error is not None:
        _log.warning("%s", error)
