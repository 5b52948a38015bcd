"""Decide which fault is due, from the events of the log and the time that the caller passes; no process, no clock.

It is deterministic: random choices are drawn from the plan's seed.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.support.faults.plan import (
    AfterEvent,
    AfterTime,
    AtStart,
    FaultPlan,
    FaultTarget,
    JobIs,
    PlannedFault,
    ProcessKind,
    SessionOpens,
    TaskDid,
    TaskMilestone,
    Within,
)
from tony.core.events import Event, Exited, FirstOutput, Registered, SessionOpened, Started
from tony.core.state import State
from tony.model.states import JobState

_STEPS: dict[TaskMilestone, type[Registered] | type[Started] | type[FirstOutput] | type[Exited]] = {
    TaskMilestone.REGISTERED: Registered,
    TaskMilestone.STARTED: Started,
    TaskMilestone.PRINTED: FirstOutput,
    TaskMilestone.EXITED: Exited,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """One fault to inject or to undo now.

    Attributes:
        number: index of the fault in the plan.
        target: with any random choice resolved.
        over: whether the fault is to be undone.
    """

    number: int
    planned: PlannedFault
    target: FaultTarget
    over: bool = False


class Conductor:
    """The schedule of the faults of one job.

    Args:
        done: indexes of the faults to skip, since they were injected already.
    """

    def __init__(self, plan: FaultPlan, done: frozenset[int] = frozenset()) -> None:
        self._plan = plan
        self._waiting = {n: s for n, s in enumerate(plan.faults) if n not in done and not isinstance(s.moment, Within)}
        self._due: list[tuple[float, int, int, Injection | None]] = []
        self._made = 0
        self._states: set[JobState] = set()
        for number, planned in list(self._waiting.items()):
            if isinstance(planned.moment, AtStart | AfterTime):
                seconds = planned.moment.seconds if isinstance(planned.moment, AfterTime) else 0.0
                self._plan_for(number, seconds)

    def saw(self, seq: int, at: float, event: Event, state: State) -> None:
        """Handle the next event of the log.

        Args:
            at: job time of the event, in seconds.
            state: of the state machine after the event.
        """
        arrived, self._states = state.job not in self._states, self._states | {state.job}
        for number, planned in list(self._waiting.items()):
            if self._is_now(planned, seq, event, state.job if arrived else None):
                self._plan_for(number, at)

    def due(self, now: float, state: State) -> Iterator[Injection]:
        """Yield the faults due at `now`, in order, each once."""
        while self._due and self._due[0][0] <= now:
            at, _, number, injection = heapq.heappop(self._due)
            if injection is None:
                planned = self._plan.faults[number]
                target = self._drawn(number, planned.target, state)
                injection = Injection(number=number, planned=planned, target=target)
                if planned.lasts is not None:
                    # Counted from the actual injection, so that a late one is not undone at once.
                    self._put(max(at, now) + planned.lasts, number, replace(injection, over=True))
            yield injection

    def again(self, injection: Injection, at: float) -> None:
        """Retry a fault at a later time, since its target was not running."""
        self._due = [each for each in self._due if each[2] != injection.number]
        heapq.heapify(self._due)
        self._put(at, injection.number, None)

    @property
    def next_at(self) -> float | None:
        """The time at which the next fault is due; None if there is none."""
        return self._due[0][0] if self._due else None

    @property
    def is_done(self) -> bool:
        """Whether no more faults can become due."""
        return not self._waiting and not self._due

    def _is_now(self, planned: PlannedFault, seq: int, event: Event, arrived: JobState | None) -> bool:
        match planned.moment:
            case AfterEvent(seq=wanted):
                return seq >= wanted
            case SessionOpens(session=session):
                return isinstance(event, SessionOpened) and event.session >= session
            case TaskDid(task=task, step=step, session=wanted_session):
                return (
                    isinstance(event, _STEPS[step]) and event.task == task and wanted_session in (None, event.session)
                )
            case JobIs(state=state):
                return state is arrived
        return False

    def _plan_for(self, number: int, at: float) -> None:
        planned = self._waiting.pop(number)
        self._put(at + planned.later, number, None)

    def _put(self, at: float, number: int, injection: Injection | None) -> None:
        self._made += 1
        heapq.heappush(self._due, (at, self._made, number, injection))

    def _drawn(self, number: int, target: FaultTarget, state: State) -> FaultTarget:
        if target.any_of is None:
            return target
        tasks = [task for task in state.tasks.values() if target.any_of in ("", task.id.role)]
        if target.part is ProcessKind.PROGRAM:
            found = [task.id for task in tasks if task.living]
        else:
            found = [task.id for task in tasks if task.incarnation is not None]
        if not found:
            return target
        chosen = random.Random(f"{self._plan.seed}/{number}").choice(sorted(found))
        return replace(target, task=chosen, any_of=None)
