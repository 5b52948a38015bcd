"""Notices that the programs of a session have stalled, requests their stack traces, and says which task is the odd one.

Once per session, until a program continues. It decides nothing: `Stalled` and `StallEnded` are events.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tony.am.metrics_store import MetricsStore
from tony.am.stack_relay import StackRelay
from tony.am.stall_detection import IDLE_FLOOR_SHARE, LinePauses, Stall, TaskSigns, find_stall
from tony.core import events as ev
from tony.core.state import State, Task
from tony.diagnosis.stack_groups import TaskStack, WaitPoint, find_odd_task, find_wait_point
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
#: Share of its time that a check may take, in jobs with thousands of tasks.
_CHECK_PAUSE_RATIO = 100.0


@dataclass(slots=True)
class _Dump:
    """Stack traces that are being collected.

    Attributes:
        waiting: tasks that are still to be asked.
        open: requests without an answer.
        is_asking: requests are being sent; some may be answered at once.
    """

    session: int
    stall: Stall
    waiting: list[TaskId]
    points: dict[TaskId, WaitPoint | None]
    open: int = 0
    is_asking: bool = False


class StallWatch:
    """Watches one job.

    Args:
        feed: takes an event.
        now: returns the job's time.
        find_output: returns when a task last printed a line; None if it has not.
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
        on_stalled: Callable[[str], None],
    ) -> None:
        self._state, self._metrics, self._stacks = state, metrics, stacks
        self._feed, self._now, self._find_output, self._on_stalled = feed, now, find_output, on_stalled
        self._lines: dict[tuple[TaskId, int, int], LinePauses] = {}
        self._dump: _Dump | None = None
        self._session = 0
        self._next_check_at = 0.0

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
            self._session, self._dump = state.session, None
            self._lines.clear()
        if state.job is not JobState.RUNNING or state.reconciling:
            self._dump = None
            return
        tasks = [task for task in state.tasks.values() if self._is_waited_for(task)]
        signs = [self._collect_signs(task) for task in tasks]
        stall = state.stall
        if stall and stall.session == state.session:
            if any(_has_continued(each, stall, timeout) for each in signs):
                self._feed(ev.StallEnded(session=state.session))
            return
        if self._dump or not all(map(self._is_measured, tasks)):
            return
        found = find_stall(signs, self._now(), timeout)
        if found:
            self._start_dump(found, signs)

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

    def _start_dump(self, stall: Stall, signs: Sequence[TaskSigns]) -> None:
        """Request the stack traces of all tasks; of very many those that are furthest behind."""
        ordered = sorted(signs, key=lambda each: each.steps.step if each.steps else float("inf"))
        log.info("no further %s: requesting stack traces", stall.what)
        self._dump = dump = _Dump(
            self._state.session, stall, [each.task for each in ordered[:MAX_DUMPED_TASKS]][::-1], {}
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
            self._dump = None
            self._report(dump)

    def _on_stacks(self, dump: _Dump, task: TaskId, answer: Stacks) -> None:
        dump.open -= 1
        try:
            dump.points[task] = find_wait_point(answer.text)
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
        if find_stall([self._collect_signs(task) for task in running], self._now(), timeout) is None:
            return
        ended = [
            task
            for task in state.tasks.values()
            if task.state is TaskState.SUCCEEDED
            and task.session == state.session
            and any(task.id.role == each.id.role for each in running)
        ]
        odd = find_odd_task(
            [self._describe(task, dump.points.get(task.id), has_ended=False) for task in running]
            + [self._describe(task, None, has_ended=True) for task in ended]
        )
        since = dump.stall.since
        self._feed(
            ev.Stalled(
                session=dump.session,
                since=round(since, 3),
                what=dump.stall.what,
                reason=odd.sentence,
                task=odd.task,
                frame=odd.frame,
            )
        )
        log.warning("no further %s: %s", dump.stall.what, odd.sentence)
        self._on_stalled(f"no further {dump.stall.what}: {odd.sentence}")

    def _describe(self, task: Task, point: WaitPoint | None, *, has_ended: bool) -> TaskStack:
        steps = self._metrics.find_step_pauses(task)
        return TaskStack(task=task.id, point=point, step=steps.step if steps else None, has_ended=has_ended)


def _has_continued(signs: TaskSigns, stall: ev.Stalled, timeout: float) -> bool:
    """Return True if a task gave the sign of progress that was missing; times of known signs vary a little."""
    if stall.what == "step":
        return signs.steps is not None and signs.steps.at > stall.since + 0.5 * IDLE_FLOOR_SHARE * timeout
    return signs.silent_since > stall.since + 0.5 * timeout
