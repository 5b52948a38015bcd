"""Detects that the programs of a session have stalled, requests their stack traces, and names the odd task.

Once per session, until a program continues. It decides nothing: `Stalled` and `StallEnded` are events.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from tony.am.metrics_store import MetricsStore
from tony.am.stack_relay import StackRelay
from tony.am.stall_detection import (
    EARLY_SHARE,
    IDLE_FLOOR_SHARE,
    PROOF_SHARE,
    LinePauses,
    Stall,
    TaskSigns,
    find_early_stall,
    find_lone_stall,
    find_stall,
)
from tony.core import events as ev
from tony.core.state import State, Task
from tony.diagnosis.stack_groups import (
    CollectiveEvidence,
    OddTask,
    TaskStack,
    WaitPoint,
    describe_lone_task,
    find_collective_evidence,
    find_odd_task,
    find_odd_task_early,
    find_wait_point,
    has_waited,
    mark_native_waits,
    waits_for_others,
)
from tony.model.ids import TaskId
from tony.model.setting_choices import RoleKind
from tony.model.states import JobState, TaskState
from tony.protocol.shared_messages import Stacks

log = logging.getLogger(__name__)

#: Maximum number of tasks whose stack traces are requested, in all and at a time.
MAX_DUMPED_TASKS = 512
_MAX_CONCURRENT = 32
#: Age of the last measurement, in intervals and at least in seconds, from which a task is not classified.
_MAX_AGE_INTERVALS = 3.0
_MIN_AGE_SECONDS = 5.0
#: Factor of the time until stack traces are requested once more, of a session whose last ones proved nothing early, or
#: a stall that has ended.
_EARLY_BACKOFF = 2.0
#: Share of its time that a check may take, in jobs with thousands of tasks.
_CHECK_PAUSE_RATIO = 100.0


@dataclass(slots=True)
class _Dump:
    """Stack traces that are being collected.

    Attributes:
        waiting: tasks that are still to be asked.
        points, collectives: what their answers contain.
        open: requests without an answer.
        is_asking: requests are being sent; some may be answered at once.
        is_early: they must prove that the session has stalled, together with the next ones.
        collected_at: when the last answer arrived.
    """

    session: int
    stall: Stall
    waiting: list[TaskId]
    points: dict[TaskId, WaitPoint | None] = field(default_factory=dict)
    collectives: dict[TaskId, CollectiveEvidence] = field(default_factory=dict)
    open: int = 0
    is_asking: bool = False
    is_early: bool = False
    collected_at: float = 0.0


class StallWatch:
    """Watches one job.

    Args:
        feed: takes an event.
        now: returns the job's time.
        find_output: returns when a task last printed a line; None if it has not.
        find_last_line: returns the last line that a task printed; empty if it has not.
        on_stalled: called with a sentence when a stall was noticed.
    """

    def __init__(
        self,
        state: State,
        metrics: MetricsStore,
        stacks: StackRelay,
        feed: Callable[[ev.Event], None],
        now: Callable[[], float],
        find_output: Callable[[TaskId], float | None],
        find_last_line: Callable[[TaskId], str],
        on_stalled: Callable[[str], None],
    ) -> None:
        self._state, self._metrics, self._stacks = state, metrics, stacks
        self._feed, self._now, self._on_stalled = feed, now, on_stalled
        self._find_output, self._find_last_line = find_output, find_last_line
        self._lines: dict[tuple[TaskId, int, int], LinePauses] = {}
        self._dump: _Dump | None = None
        self._session = 0
        self._next_check_at = 0.0
        self._next_proof_at = 0.0
        self._early_proof: _Dump | None = None
        self._next_early_at = self._early_pause = 0.0
        self._reported_at = now()  # also of a stall that an earlier AM attempt has reported

    def check(self) -> None:
        """Look for a stall, or for the end of one. Call it periodically."""
        timeout, started_at = self._state.spec.stall_timeout, time.monotonic()
        if timeout is None or not self._metrics.interval or started_at < self._next_check_at:
            return
        try:
            self._check(timeout)
        except Exception:  # a bug here must not end the job
            self._give_up()
            return
        self._next_check_at = started_at + _CHECK_PAUSE_RATIO * (time.monotonic() - started_at)

    def _give_up(self) -> None:
        """Report a bug, and check no more."""
        log.exception("looking for stalled programs failed: please report this")
        self._next_check_at = float("inf")

    def _check(self, timeout: float) -> None:
        state = self._state
        if state.session != self._session:
            self._session, self._dump, self._next_proof_at = state.session, None, 0.0
            self._early_proof, self._next_early_at, self._early_pause = None, 0.0, PROOF_SHARE * timeout
            self._lines.clear()
        if state.job is not JobState.RUNNING or state.reconciling:
            self._dump = None
            return
        tasks = [task for task in state.tasks.values() if self._is_waited_for(task)]
        signs = [self._collect_signs(task) for task in tasks]
        stall = state.stall if state.stall and state.stall.session == state.session else None
        if stall and self._has_ended(signs, stall, timeout):
            self._postpone_early_proof()
            self._feed(ev.StallEnded(session=state.session))
            return
        if self._dump or not all(map(self._is_measured, tasks)):
            return
        found, is_early = self._find_stall(signs, timeout), False
        proof = self._early_proof
        if proof and find_early_stall(signs, self._now(), self._now() - proof.collected_at) is None:
            self._postpone_early_proof()  # a program has continued since then
        may_prove = len(tasks) <= MAX_DUMPED_TASKS and self._now() >= self._next_early_at
        if found is None and stall is None and may_prove:
            found, is_early = self._find_early_stall(signs, timeout), True
        if found and (stall is None or (stall.alone and found.task is None)):
            self._start_dump(found, [each for each in signs if found.task in (None, each.task)], is_early=is_early)

    def _find_stall(self, signs: Sequence[TaskSigns], timeout: float) -> Stall | None:
        """Return the stall of the session, or else of a single task; not soon after stack traces have proved none."""
        found = find_stall(signs, self._now(), timeout)
        if (found is None or found.needs_proof) and self._now() < self._next_proof_at:
            return None
        tracked = [each for each in signs if self._state.roles[each.task.role].kind is RoleKind.TRACKED]
        return found or find_lone_stall(tracked, self._now(), timeout)

    def _find_early_stall(self, signs: Sequence[TaskSigns], timeout: float) -> Stall | None:
        idle_seconds = max(EARLY_SHARE * timeout, _MAX_AGE_INTERVALS * self._metrics.interval)
        return find_early_stall(signs, self._now(), idle_seconds)

    def _has_ended(self, signs: Sequence[TaskSigns], stall: ev.Stalled, timeout: float) -> bool:
        """Return True if a task has continued, or the only stalled one runs no longer."""
        if stall.alone:
            signs = [each for each in signs if each.task == stall.task]
            return not signs or self._has_continued(signs[0], stall, timeout)
        # Where output is missing, programs that compute have continued. Writing the stack traces takes a moment, too.
        busy_after = self._reported_at + _MIN_AGE_SECONDS + _MAX_AGE_INTERVALS * self._metrics.interval
        is_busy = stall.what == "output" and any((each.busy_at or 0.0) > busy_after for each in signs)
        return is_busy or any(self._has_continued(each, stall, timeout) for each in signs)

    def _has_continued(self, signs: TaskSigns, stall: ev.Stalled, timeout: float) -> bool:
        """Return True if a task gave the sign of progress that was missing; times of known steps vary a little."""
        if stall.what == "step":
            return signs.steps is not None and signs.steps.at > stall.since + 0.5 * IDLE_FLOOR_SHARE * timeout
        return signs.silent_since > self._reported_at

    def _is_waited_for(self, task: Task) -> bool:
        """Return True for a running task of the session, but not for one that the job never waits for."""
        kind = self._state.roles[task.id.role].kind
        return task.state is TaskState.RUNNING and kind in (RoleKind.TRACKED, RoleKind.UNTRACKED)

    def _is_measured(self, task: Task) -> bool:
        """Return True if the task's newest metrics are known."""
        measured_at = self._metrics.activity.find_measured(task.id)
        limit = max(_MIN_AGE_SECONDS, _MAX_AGE_INTERVALS * self._metrics.interval)
        return measured_at is not None and self._now() - measured_at <= limit

    def _collect_signs(self, task: Task) -> TaskSigns:
        printed_at = self._find_output(task.id)
        which = task.id, task.session, task.try_
        lines = self._lines.get(which)
        if printed_at is not None:
            lines = self._lines.setdefault(which, LinePauses())
            lines.note_line(printed_at)
        return TaskSigns(
            task=task.id,
            started_at=task.started_at,
            busy_at=self._metrics.activity.find_busy(task.id),
            steps=self._metrics.find_step_pauses(task),
            lines=lines,
        )

    # --- stack traces -------------------------------------------------------------------------------------------------

    def _start_dump(self, stall: Stall, signs: Sequence[TaskSigns], *, is_early: bool) -> None:
        """Request the stack traces of all tasks; of very many those that are furthest behind."""
        ordered = sorted(signs, key=lambda each: each.steps.step if each.steps else float("inf"))
        log.info("no further %s: requesting stack traces", stall.what)
        self._dump = dump = _Dump(
            self._state.session, stall, [each.task for each in ordered[:MAX_DUMPED_TASKS]][::-1], is_early=is_early
        )
        self._continue_dump(dump)

    def _continue_dump(self, dump: _Dump) -> None:
        dump.is_asking = True
        while dump.waiting and dump.open < _MAX_CONCURRENT:
            dump.open += 1
            task = dump.waiting.pop()
            self._stacks.request(task, partial(self._on_stacks, dump, task))
        dump.is_asking = False
        if not dump.open and not dump.waiting and self._dump is dump:
            self._dump, dump.collected_at = None, self._now()
            self._report(dump)

    def _on_stacks(self, dump: _Dump, task: TaskId, answer: Stacks) -> None:
        dump.open -= 1
        try:
            dump.points[task] = find_wait_point(answer.text)
            dump.collectives[task] = find_collective_evidence(answer.text)
            if self._dump is dump and not dump.is_asking:
                self._continue_dump(dump)
        except Exception:  # as in `check`
            self._give_up()

    def _report(self, dump: _Dump) -> None:
        """Feed the event, unless a program has continued meanwhile."""
        state = self._state
        running = [task for task in state.tasks.values() if self._is_waited_for(task)]
        timeout = state.spec.stall_timeout
        if state.session != dump.session or state.job is not JobState.RUNNING or timeout is None:
            return
        signs = [self._collect_signs(task) for task in running]
        if dump.is_early:
            odd = self._name_task_early(running, dump, timeout) if self._find_early_stall(signs, timeout) else None
            if odd is None:
                return
        else:
            found = self._find_stall(signs, timeout)
            if found is None or found.task != dump.stall.task:
                return
            odd = self._name_task(running, dump)
            if odd is None:
                self._next_proof_at = self._now() + max(timeout, self._now() - found.since)
                return
        since, self._reported_at = dump.stall.since, self._now()
        self._feed(
            ev.Stalled(
                session=dump.session,
                since=round(since, 3),
                what=dump.stall.what,
                reason=odd.sentence,
                task=odd.task,
                frame=odd.frame,
                alone=dump.stall.task is not None,
            )
        )
        log.warning("no further %s: %s", dump.stall.what, odd.sentence)
        self._on_stalled(f"no further {dump.stall.what}: {odd.sentence}")

    def _name_task(self, running: Sequence[Task], dump: _Dump) -> OddTask | None:
        """Return the stalled task, or the one that the others wait for; None if the stack traces prove no stall."""
        stacks = [self._describe(task, dump) for task in running]
        if dump.stall.task is not None:
            lone = next(each for each in stacks if each.task == dump.stall.task)
            if waits_for_others([lone]):  # it has made its steps, and the others have not
                return None
            return self._add_last_line(describe_lone_task(lone, len(stacks) - 1), dump)
        stacks = self._add_native_waits([*stacks, *self._describe_ended(running)])
        if dump.stall.needs_proof and not waits_for_others(stacks):
            return None
        return self._add_last_line(find_odd_task(stacks), dump)

    def _name_task_early(self, running: Sequence[Task], dump: _Dump, timeout: float) -> OddTask | None:
        """Return the task that the others wait for, if these stack traces and earlier ones prove that it is stuck."""
        stacks = [self._describe(task, dump) for task in running]
        stacks = self._add_native_waits([*stacks, *self._describe_ended(running)])
        odd, last = find_odd_task_early(stacks), self._early_proof
        self._early_proof = None
        if odd and last is None:
            self._early_proof, self._next_early_at = dump, self._now() + PROOF_SHARE * timeout
            return None
        waiting = [task for task, point in dump.points.items() if point and (point.is_collective or point.parked)]
        if odd and last and all(has_waited(last.points.get(task), dump.points[task]) for task in waiting):
            return odd
        self._postpone_early_proof()
        return None

    def _postpone_early_proof(self) -> None:
        """Wait longer than last time before stack traces are requested early again."""
        self._early_proof = None
        self._early_pause *= _EARLY_BACKOFF
        self._next_early_at = self._now() + self._early_pause

    def _add_native_waits(self, stacks: list[TaskStack]) -> list[TaskStack]:
        """Mark the tasks of JAX that wait in compiled code."""
        return mark_native_waits(stacks) if self._state.spec.framework == "jax" else stacks

    def _describe_ended(self, running: Sequence[Task]) -> list[TaskStack]:
        """Return the tasks of the same roles that have succeeded."""
        roles = {task.id.role for task in running}
        return [
            self._describe(task)
            for task in self._state.tasks.values()
            if task.state is TaskState.SUCCEEDED and task.session == self._state.session and task.id.role in roles
        ]

    def _add_last_line(self, odd: OddTask, dump: _Dump) -> OddTask:
        """Add what a task printed last, if its main program has ended: mostly an error."""
        point = dump.points.get(odd.task) if odd.task else None
        line = self._find_last_line(odd.task) if odd.task and point and point.is_exiting else ""
        return replace(odd, sentence=f"{odd.sentence}; last line of {odd.task}: {line}") if line else odd

    def _describe(self, task: Task, dump: _Dump | None = None) -> TaskStack:
        """Describe a task that runs, or without `dump` one that has ended."""
        steps = self._metrics.find_step_pauses(task)
        step = steps.step if steps else None
        if dump is None:
            return TaskStack(task=task.id, step=step, has_ended=True)
        collectives = dump.collectives.get(task.id, CollectiveEvidence())
        return TaskStack(task=task.id, point=dump.points.get(task.id), collectives=collectives, step=step)
