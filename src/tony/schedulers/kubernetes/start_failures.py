"""What follows when the containers of pods cannot start: it passes, another pod is tried, or the job fails."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping

from tony.core.events import Event, Unsatisfiable
from tony.schedulers.kubernetes.pod_table import StartFailure, TaskPod

#: Pods of a role that are replaced before the job is thought to be the cause, unless another pod of the role started.
#: The core excludes a node after two.
_MAX_REPLACED = 2


class StartFailures:
    """The pods that have a node, and whose executor has not enlisted.

    Args:
        pods: name -> pod, of all that have not ended.
        emit: receives `Unsatisfiable` for the role of a pod that cannot start anywhere.
        kill: called with the name of a pod that may start on another node, and why; the core requests another one.
    """

    def __init__(
        self, pods: Mapping[str, TaskPod], emit: Callable[[Event], None], kill: Callable[[str, str], None]
    ) -> None:
        self._pods, self._emit, self._kill = pods, emit, kill
        self._replaced: Counter[str] = Counter()  # by role

    def note(self, pod: TaskPod, failure: StartFailure | None) -> None:
        """Note why a pod cannot start; None if it can."""
        loop = asyncio.get_running_loop()
        if failure is None:
            pod.clear_start_failure()
        elif pod.note_start_failure(failure, loop.time()):
            loop.call_later(failure.grace_seconds, self._give_up, pod)
        self._give_up(pod)

    def _give_up(self, pod: TaskPod) -> None:
        is_known = self._pods.get(pod.name) is pod
        if not is_known or not pod.has_failed_to_start(asyncio.get_running_loop().time()):
            return
        assert pod.start_failure is not None
        if pod.start_failure.is_of_node and self._may_start_elsewhere(pod.role):
            self._replaced[pod.role] += 1
            self._kill(pod.name, pod.start_failure.text)
        else:
            self._emit(Unsatisfiable(role=pod.role, reason=pod.start_failure.text))

    def _may_start_elsewhere(self, role: str) -> bool:
        has_started = any(pod.role == role and pod.has_enlisted for pod in self._pods.values())
        return has_started or self._replaced[role] < _MAX_REPLACED
