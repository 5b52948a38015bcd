"""What follows when the containers of pods cannot start: it passes, another pod is tried, or the job fails."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable

from tony.core.events import Event, Unsatisfiable
from tony.schedulers.kubernetes.pod_table import PodStage, PodTable, StartFailure, TaskPod

#: Nodes that cannot start pods of a role, and such pods for each of its tasks, after which the job is taken to be the
#: cause, if no other pod of the role may yet start. The core excludes a node after two.
_MAX_NODES = 3
_MAX_PODS_PER_TASK = 3


class StartFailures:
    """The pods that have a node, and whose executor has not enlisted.

    Args:
        table: of all pods that have not ended.
        emit: receives `Unsatisfiable` for the role of a pod that cannot start anywhere.
        replace: called with a pod that may start on another node, and why.
    """

    def __init__(self, table: PodTable, emit: Callable[[Event], None], replace: Callable[[TaskPod, str], None]) -> None:
        self._table, self._emit, self._replace = table, emit, replace
        self._failed_nodes: defaultdict[str, list[str]] = defaultdict(list)  # by role, one for each pod
        self._started_roles: set[str] = set()

    def note(self, pod: TaskPod, failure: StartFailure | None) -> None:
        """Note why a pod cannot start; None if it can."""
        loop = asyncio.get_running_loop()
        if failure is None:
            pod.clear_start_failure()
        elif pod.note_start_failure(failure, loop.time()):
            loop.call_later(failure.grace_seconds, self._give_up, pod)
        self._give_up(pod)

    def note_started(self, role: str) -> None:
        """Note that a pod of a role has started, so the job does not keep others from it."""
        self._started_roles.add(role)

    def _give_up(self, pod: TaskPod) -> None:
        is_known = self._table.pods.get(pod.name) is pod
        if not is_known or not pod.has_failed_to_start(asyncio.get_running_loop().time()):
            return
        assert pod.start_failure is not None
        text = pod.start_failure.text
        self._failed_nodes[pod.role].append(pod.node)
        if pod.start_failure.may_be_node_failure and not self._is_caused_by_job(pod.role):
            self._replace(pod, text)
        else:
            self._emit(Unsatisfiable(role=pod.role, reason=text))

    def _is_caused_by_job(self, role: str) -> bool:
        others = [pod for pod in self._table.pods.values() if pod.role == role and _may_start(pod)]
        nodes, tasks = self._failed_nodes[role], self._table.demand.get(role, 1)
        is_everywhere = len({*nodes}) >= _MAX_NODES or len(nodes) >= _MAX_PODS_PER_TASK * tasks
        return is_everywhere and role not in self._started_roles and not others


def _may_start(pod: TaskPod) -> bool:
    has_failed = pod.start_failure is not None and pod.start_failure.may_be_node_failure
    return pod.stage is not PodStage.ENDING and not has_failed
