"""The pods of a job as its AM knows them, and how many of them each role is missing. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from tony.units import format_duration


@dataclass(frozen=True, slots=True)
class StartFailure:
    """Why a container cannot start.

    Attributes:
        text: why.
        grace_seconds: how long to wait until it goes away; 0 if it never does.
        may_be_node_failure: its node may be the cause, so another one may start it.
    """

    text: str
    grace_seconds: float = 0.0
    may_be_node_failure: bool = False

    def add_time(self, since: Mapping[float, float], now: float) -> dict[float, float]:
        """Return since when there are failures, by their seconds of grace.

        Each grace runs on while there are failures of the same or of a shorter one.

        Args:
            since: the same before this failure was seen.
            now: by the same clock.
        """
        running = {grace: at for grace, at in since.items() if grace >= self.grace_seconds and at <= now}
        return {self.grace_seconds: now, **running}


class PodStage(Enum):
    """How far a pod is."""

    CREATING = "creating"  #: requested from the API server
    PENDING = "pending"  #: it has no node
    GRANTED = "granted"  #: it has a node
    ENDING = "ending"  #: it is being deleted, or its executor was asked to exit


_WAITING = (PodStage.CREATING, PodStage.PENDING)
#: Part of what the scheduler says about a pod for which there is room, but not for others of its gang.
_OTHER_PODS = "waiting for minCount pods from a gang"


@dataclass(slots=True, eq=False)
class Gang:
    """Pods that are started together.

    Attributes:
        name: of the group in the cluster.
        places: role -> the number of its pods.
        minimum: the number of pods for which there must be room before any starts.
        memory: role -> bytes of its pods' programs.
        kept: role -> the number of its pods that ended with exit code 0, or are on lost nodes: Kueue does not give
            their places away.
        leaving: pods that have ended, and their roles, whose places Kueue does not give away before the kubelet reports
            their phase.
        is_closed: Kueue is evicting it, so that no pod joins it.
        has_run: a pod of it that had a node has ended.
    """

    name: str
    places: Mapping[str, int]
    minimum: int
    memory: Mapping[str, int]
    kept: Counter[str] = field(default_factory=Counter)
    leaving: dict[str, str] = field(default_factory=dict)
    is_closed: bool = False
    has_run: bool = False


@dataclass(slots=True, eq=False)
class TaskPod:
    """A pod that has not ended.

    Attributes:
        memory: bytes, of its program.
        gang: the pods that it is started with; None: it is started by itself.
        node: where it runs; empty until it is granted.
        avoided: the nodes that it was to avoid when it was created.
        is_seen: the API server has reported it.
        pending_reason: why it has no node, in the scheduler's words.
        is_gated: the scheduler does not look at it before another program, such as Kueue, has admitted it.
        is_used: an executor was launched in it.
        has_enlisted: its executor has asked for its task.
        start_failure: why its container cannot start now; None if it can.
        failing_since: see `StartFailure.add_time`; by the event loop's clock.
        kill_reason: why it is being killed; empty if it is not.
        is_leaving_node: the core counts it until it has ended, although it is being deleted: its node could not start
            it.
        release_at: when a released one is killed, by the same clock.
        lost_at: when one that is being deleted is given up, by the same clock.
    """

    name: str
    role: str
    memory: int
    stage: PodStage = PodStage.CREATING
    node: str = ""
    avoided: tuple[str, ...] = ()
    gang: Gang | None = None
    is_seen: bool = False
    pending_reason: str = ""
    is_gated: bool = False
    is_used: bool = False
    has_enlisted: bool = False
    start_failure: StartFailure | None = None
    failing_since: dict[float, float] = field(default_factory=dict)
    kill_reason: str = ""
    is_leaving_node: bool = False
    release_at: float = math.inf
    lost_at: float = math.inf

    @property
    def is_counted(self) -> bool:
        """Whether it is one of those that its role should have."""
        return self.stage is not PodStage.ENDING or self.is_leaving_node

    def note_start_failure(self, failure: StartFailure, now: float) -> bool:
        """Note why its container cannot start; return True if the time of its grace begins now."""
        self.start_failure = failure
        is_new = failure.grace_seconds not in self.failing_since
        self.failing_since = failure.add_time(self.failing_since, now)
        return is_new

    def describe_start_failure(self) -> str:
        """Return why its container cannot start now, and for how long that may be so; empty if it can."""
        failure = self.start_failure
        if failure is None or not failure.grace_seconds:
            return failure.text if failure else ""
        end = "its pod is replaced, or the job fails," if failure.may_be_node_failure else "the job fails"
        return f"{failure.text}; {end} if that lasts for {format_duration(failure.grace_seconds)}"

    def clear_start_failure(self) -> None:
        """Note that nothing keeps its container from starting."""
        self.start_failure = None
        self.failing_since.clear()

    def has_failed_to_start(self, now: float) -> bool:
        """Return True if its container cannot start, and that has not passed in its time."""
        if self.start_failure is None or self.stage is PodStage.ENDING or self.has_enlisted:
            return False
        grace = self.start_failure.grace_seconds
        return now >= self.failing_since[grace] + grace


@dataclass(slots=True)
class PodTable:
    """All pods that have not ended.

    Attributes:
        demand: role -> the number of pods that it should have.
    """

    pods: dict[str, TaskPod] = field(default_factory=dict)
    demand: dict[str, int] = field(default_factory=dict)

    def release(self, name: str) -> TaskPod | None:
        """Note that the core does not count a pod any longer; return it, or None if it is being deleted already."""
        pod = self.pods.get(name)
        if pod:
            pod.is_leaving_node = False
        return None if pod is None or pod.kill_reason else pod

    def count_missing(self) -> Mapping[str, int]:
        """Return how many pods to create for each role."""
        counts = {role: total - len(self._list(role)) for role, total in self.demand.items()}
        return {role: count for role, count in counts.items() if count > 0}

    def list_surplus(self, role: str) -> Sequence[TaskPod]:
        """Return pods of a role to delete: those without a node, newest first, as long as it has too many.

        A role without a demand needs none: it may have pods of an earlier AM attempt.
        """
        pods = self._list(role)
        waiting = [pod for pod in pods if pod.stage in _WAITING]
        excess = len(pods) - self.demand.get(role, 0)
        return waiting[::-1][:excess] if excess > 0 else ()

    def has_waiting(self) -> bool:
        """Return True if any pod has no node yet."""
        return any(pod.stage in _WAITING for pod in self.pods.values())

    def is_creating(self, gang: Gang) -> bool:
        """Return True if pods of a gang are still to be created."""
        return any(pod.stage is PodStage.CREATING for pod in self.list_members(gang))

    def list_members(self, gang: Gang) -> Sequence[TaskPod]:
        """Return the pods of a gang."""
        return [pod for pod in self.pods.values() if pod.gang is gang]

    def list_gated(self) -> Sequence[TaskPod]:
        """Return the pods that wait for another program than the scheduler."""
        return [pod for pod in self.pods.values() if pod.stage in _WAITING and pod.is_gated]

    def find_pending_reason(self, queue_reason: str | None) -> str:
        """Return why pods have no node: that of the first; empty if it is not known.

        Args:
            queue_reason: that of Kueue for gated ones; None: without Kueue.
        """
        waiting = [pod for pod in self.pods.values() if pod.stage in _WAITING]
        reasons = [pod.pending_reason if queue_reason is None or not pod.is_gated else queue_reason for pod in waiting]
        return next((reason for reason in reasons if reason and _OTHER_PODS not in reason), "")

    def _list(self, role: str) -> list[TaskPod]:
        return [pod for pod in self.pods.values() if pod.role == role and pod.is_counted]
