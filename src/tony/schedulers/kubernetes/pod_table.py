"""The pods of a job as its AM knows them, and how many of them each role is missing. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum


class PodStage(Enum):
    """How far a pod is."""

    CREATING = "creating"  #: requested from the API server
    PENDING = "pending"  #: it has no node
    GRANTED = "granted"  #: it has a node
    ENDING = "ending"  #: it is being deleted, or its executor was asked to exit


@dataclass(slots=True, eq=False)
class TaskPod:
    """A pod that has not ended.

    Attributes:
        memory: bytes, of its program.
        node: where it runs; empty until it is granted.
        is_used: an executor was launched in it.
        has_enlisted: its executor has asked for its task.
        start_failure: why its container cannot start now; empty if it can.
        kill_reason: why it is being killed; empty if it is not.
        release_at: when a released one is killed, by the event loop's clock.
    """

    name: str
    role: str
    memory: int
    stage: PodStage = PodStage.CREATING
    node: str = ""
    is_used: bool = False
    has_enlisted: bool = False
    start_failure: str = ""
    kill_reason: str = ""
    release_at: float = math.inf


@dataclass(slots=True)
class PodTable:
    """All pods that have not ended.

    Attributes:
        demand: role -> the number of pods that it should have.
    """

    pods: dict[str, TaskPod] = field(default_factory=dict)
    demand: dict[str, int] = field(default_factory=dict)

    def count_missing(self) -> Mapping[str, int]:
        """Return how many pods to create for each role."""
        counts = {role: total - len(self._list(role)) for role, total in self.demand.items()}
        return {role: count for role, count in counts.items() if count > 0}

    def list_surplus(self) -> Sequence[TaskPod]:
        """Return pods to delete: those without a node, newest first, as long as a role has too many."""
        surplus: list[TaskPod] = []
        for role, total in self.demand.items():
            pods = self._list(role)
            waiting = [pod for pod in pods if pod.stage in (PodStage.CREATING, PodStage.PENDING)]
            excess = len(pods) - total
            surplus += waiting[::-1][:excess] if excess > 0 else ()
        return surplus

    def _list(self, role: str) -> list[TaskPod]:
        return [pod for pod in self.pods.values() if pod.role == role and pod.stage is not PodStage.ENDING]
