"""Layout of all pictures of a timeline: lanes of tasks, the time scale with its ticks, and the words of the legend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tony.history.timeline import TaskPhase
from tony.model.ids import parse_role

#: Meaning of the phases, in the order of a task's life.
PHASE_TEXTS = {
    TaskPhase.WAITING: "waiting for a container",
    TaskPhase.SET_UP: "container setup",
    TaskPhase.RENDEZVOUS: "waiting for other tasks",
    TaskPhase.RUNNING: "running",
    TaskPhase.STOPPING: "stopping",
    TaskPhase.IDLE: "exited, container not yet released",
}
#: Seconds between two ticks of the time axis.
_STEPS = (
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600,
    43200, 86400, 172800, 604800,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TaskLane:
    """Neighbouring tasks of one role that share a row: those at the positions `first` to `last` among all tasks."""

    tasks: Sequence[str]
    first: int

    @property
    def role(self) -> str:
        """The role of its tasks."""
        return parse_role(self.tasks[0])

    @property
    def last(self) -> int:
        """The position of its last task."""
        return self.first + len(self.tasks) - 1

    def label(self, dash: str) -> str:
        """Return its task, or its first one and the number of its last one: `worker:0-24`."""
        return self.tasks[0] if len(self.tasks) == 1 else f"{self.tasks[0]}{dash}{self.tasks[-1].rpartition(':')[2]}"


def divide_into_lanes(tasks: Sequence[str], most: int) -> list[TaskLane]:
    """Divide tasks into lanes of up to `most` tasks of one role."""
    lanes: list[TaskLane] = []
    first = 0
    for at in range(1, len(tasks) + 1):
        begins_lane = at - first == most or at == len(tasks)
        if begins_lane or parse_role(tasks[at]) != parse_role(tasks[first]):
            lanes.append(TaskLane(tasks[first:at], first))
            first = at
    return lanes


@dataclass(frozen=True, slots=True)
class TimeScale:
    """Maps a time range, in seconds since the job was accepted, to 0 .. 1."""

    since: float
    until: float

    @property
    def seconds(self) -> float:
        """Its length."""
        return max(self.until - self.since, 1e-3)

    def find_position(self, seconds: float) -> float:
        """Return the position of a time; of one outside the range the nearer end."""
        return min(1.0, max(0.0, (seconds - self.since) / self.seconds))

    def ticks(self, most: int) -> Iterator[float]:
        """Yield up to about `most` round times."""
        step = next((step for step in _STEPS if self.seconds / step <= most), self.seconds / max(1, most - 2))
        number = -int(-self.since // step)
        while number * step <= self.until:
            yield number * step
            number += 1
