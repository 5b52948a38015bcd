"""Compares the tasks of each role from time to time, and names those that are slow. It decides nothing."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from tony.am.metrics_store import MetricsStore
from tony.am.straggler_detection import FEWEST_STEPS, StragglerHistory, TaskWindow
from tony.core import events as ev
from tony.core.state import RoleState, State, Task
from tony.model.ids import TaskId
from tony.model.states import JobState, TaskState

log = logging.getLogger(__name__)

#: Minimum length of a window in intervals between samples.
WINDOW_INTERVALS = 6.0
#: Factor by which a window may be longer, until the slowest task has made enough steps to be compared, too.
_MAX_LENGTH_FACTOR = 4.0
#: Steps that half of the tasks must have made in a window.
_WINDOW_STEPS = 6
#: Share of its time that a check may take, in jobs with thousands of tasks.
_CHECK_PAUSE_RATIO = 100.0


class StragglerWatch:
    """Watches one job.

    Args:
        feed: takes an event.
        now: returns the job's time.
        on_found: called with a sentence when a task is found to be slow, once for each task.
    """

    def __init__(
        self,
        state: State,
        metrics: MetricsStore,
        feed: Callable[[ev.Event], None],
        now: Callable[[], float],
        on_found: Callable[[str], None],
    ) -> None:
        self._state, self._metrics, self._feed, self._now, self._on_found = state, metrics, feed, now, on_found
        self._session = 0
        self._opened_at: dict[str, float] = {}
        self._histories: dict[str, StragglerHistory] = {}
        self._reported: set[TaskId] = set()
        self._attempts: dict[TaskId, tuple[int, int]] = {}
        self._next_check_at = 0.0

    def check(self) -> None:
        """Close the windows that are complete. Call it periodically."""
        started_at = time.monotonic()
        if self._state.spec.stall_timeout is None or not self._metrics.interval or started_at < self._next_check_at:
            return
        try:
            self._check()
        except Exception:  # a bug here must not end the job
            log.exception("looking for slow tasks failed: please report this")
            self._next_check_at = float("inf")
            return
        self._next_check_at = started_at + _CHECK_PAUSE_RATIO * (time.monotonic() - started_at)

    def _check(self) -> None:
        state, now = self._state, self._now()
        if state.session != self._session:
            self._session = state.session
            self._opened_at.clear()
            self._histories.clear()
        if state.job is not JobState.RUNNING or state.reconciling:
            return
        length = WINDOW_INTERVALS * self._metrics.interval
        for role in state.roles.values():
            age = now - self._opened_at.setdefault(role.name, now)
            if age >= length:
                self._compare(role, 0 if age >= _MAX_LENGTH_FACTOR * length else FEWEST_STEPS)

    def _compare(self, role: RoleState, fewest_steps: int) -> None:
        """Close a role's window if its tasks have made enough steps.

        Args:
            fewest_steps: that each task must have made.
        """
        usage = self._metrics.windows
        history = self._histories.setdefault(role.name, StragglerHistory())
        tasks = [task for task in role.tasks if task.state is TaskState.RUNNING]
        for task in tasks:
            attempt = (task.session, task.try_)
            if self._attempts.setdefault(task.id, attempt) != attempt:
                self._attempts[task.id] = attempt
                usage.forget(task.id)
                history.forget(task.id)
        windows = [window for task in tasks if (window := self._build_window(task))]
        enough = sum(len(window.step_seconds) >= _WINDOW_STEPS for window in windows)
        if len(windows) < 2 or 2 * enough < len(windows):
            return
        if any(len(window.step_seconds) < fewest_steps for window in windows):
            return
        self._opened_at[role.name] = self._now()
        for task in tasks:
            usage.reset(task.id)
        known = [task.id for task in tasks if self._state.find_straggler(task)]
        found, ended = history.add_window(windows, known, 2 * self._metrics.step_interval)
        for task_id in ended:
            self._feed(ev.StragglerEnded(session=self._session, task=task_id))
        for task_id, reason in found.items():
            try_ = self._state.tasks[task_id].try_
            self._feed(ev.StragglerFound(session=self._session, task=task_id, try_=try_, reason=reason))
            log.warning("%s is slow: %s", task_id, reason)
            if task_id not in self._reported:
                self._reported.add(task_id)
                self._on_found(f"{task_id} is slow: {reason}")

    def _build_window(self, task: Task) -> TaskWindow | None:
        """Return what is known of a task; None if it has made no step."""
        usage = self._metrics.windows
        step = usage.find_last_step(task.id)
        if step is None:
            return None
        return TaskWindow(
            task=task.id,
            step=step,
            step_seconds=usage.find_step_seconds(task.id),
            usage=usage.find_means(task.id),
        )
