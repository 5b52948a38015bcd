"""A fake scheduler with a number of slots, one for each pod: it starts gangs as Kubernetes does, and pods one by one.

What it does about a PodGroup is that of pkg/scheduler/framework/plugins/gangscheduling of Kubernetes v1.36: no pod is
looked at before its PodGroup and `minCount` pods exist, and none gets a node unless so many have one then.
"""

from __future__ import annotations

import threading

from tests.kube.fake_api import FakeApi, Object

NO_ROOM = "0/1 nodes are available: 1 Insufficient slots."
OTHERS = "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled"
_ENDED = ("Succeeded", "Failed")


class FakeGangScheduler:
    """Gives pods nodes when it is told that something has changed.

    Args:
        pods: path of the pods.
    """

    def __init__(self, api: FakeApi, pods: str, slots: int) -> None:
        self._api, self._pods, self.slots = api, pods, slots
        self._groups = pods.replace("/api/v1/", "/apis/scheduling.k8s.io/v1alpha2/").replace("/pods", "/podgroups")
        self._lock = threading.Lock()

    def run(self) -> None:
        """Schedule what can be scheduled."""
        with self._lock:
            pods = self._list_pods()
            names = dict.fromkeys(_find_group(pod) or pod["metadata"]["name"] for pod in pods)
            for name in names:
                self._schedule([pod for pod in pods if name in (_find_group(pod), pod["metadata"]["name"])])

    def count_running(self, prefix: str) -> int:
        """Return how many pods whose name begins so have a node."""
        return sum(pod["metadata"]["name"].startswith(prefix) and _has_node(pod) for pod in self._list_pods())

    def _list_pods(self) -> list[Object]:
        found = [pod for (path, _), pod in [*self._api.objects.items()] if path == self._pods]
        tasks = [pod for pod in found if "spec" in pod and pod.get("status", {}).get("phase") not in _ENDED]
        return sorted(tasks, key=lambda pod: int(pod["metadata"]["uid"].partition("-")[2] or 0))

    def _schedule(self, pods: list[Object]) -> None:
        group, free = _find_group(pods[0]), self.slots - sum(map(_has_node, self._list_pods()))
        waiting = [pod for pod in pods if not _has_node(pod) and not pod["metadata"].get("deletionTimestamp")]
        minimum = 1
        if group:
            if (found := self._api.objects.get((self._groups, group))) is None:
                return
            minimum = found["spec"]["schedulingPolicy"]["gang"]["minCount"]
            if len(pods) < minimum:
                return
        fitting = waiting[:free] if free > 0 else []
        is_enough = len(pods) - len(waiting) + len(fitting) >= minimum
        for pod in waiting:
            name = pod["metadata"]["name"]
            if pod in fitting and is_enough:
                self._api.update(self._pods, name, {"spec": {"nodeName": "node-1"}, "status": {"phase": "Running"}})
            else:
                condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
                condition["message"] = OTHERS if pod in fitting else NO_ROOM
                self._api.update(self._pods, name, {"status": {"phase": "Pending", "conditions": [condition]}})


def _find_group(pod: Object) -> str:
    return str((pod["spec"].get("schedulingGroup") or {}).get("podGroupName", ""))


def _has_node(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName"))
