"""Status changes from one report to the next, as lines of text. Pure: time is an argument."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from tony.jobs.failure_text import format_outcome
from tony.model.failure import Failure
from tony.model.ids import TaskId, format_task_ranges
from tony.model.job_report import JobReport, TaskReport
from tony.model.states import JobState, TaskState

#: Delay before a waiting message is shown: in a normal start tasks are missing for less.
_WAITING_DELAY_SECONDS = 1.0
#: Delay after which it is shown although it keeps changing, as when many tasks register one by one.
_CHANGING_DELAY_SECONDS = 5.0
#: Interval after which the same message is repeated; doubled each time.
_REPEAT_SECONDS = 30.0
#: Most tasks that get a line each when they change together.
_MAX_SINGLE_LINES = 3
#: States of a task that are reported; in between, `waiting` names the missing tasks.
_REPORTED_STATES: Mapping[TaskState, str] = {
    TaskState.RUNNING: "running",
    TaskState.SUCCEEDED: "succeeded",
    TaskState.FAILED: "failed",
    TaskState.STOPPED: "stopped",
    TaskState.LOST: "lost",
}
#: States that may be the reason why other tasks were stopped.
_FAILED_STATES = (TaskState.FAILED, TaskState.LOST)
#: States of a task whose program has not started.
_STARTING_STATES = (TaskState.REQUESTED, TaskState.STARTING, TaskState.REGISTERED)
_NUMBER = re.compile(r"\d+(\.\d+)?")


class StatusChanges:
    """Turns reports into lines about what changed; how a job failed is explained after its last line."""

    def __init__(self) -> None:
        self._last: JobReport | None = None
        self._states: dict[str, tuple[TaskState, int, int]] = {}
        self._lone_restarts_reported: dict[str, tuple[int, int]] = {}
        self._waiting_since: float | None = None
        self._shape = ""
        self._shape_since = 0.0
        self._reported_shape = ""
        self._reported_at = 0.0
        self._repeat_after = _REPEAT_SECONDS
        self._reported_sizes: dict[str, tuple[int, tuple[TaskId, ...]]] = {}
        self._has_restart_reason = False

    def open_session(self, session: int, reason: str) -> str:
        """Return the line about a further session; its reason is left out if the restart was reported with it."""
        known, self._has_restart_reason = self._has_restart_reason, False
        return f"Session {session} started" if known else f"Session {session}: {reason or 'reason unknown'}"

    def describe(self, report: JobReport, now: float) -> list[str]:
        """Return the lines about what is new in a report.

        Args:
            now: seconds of a monotonic clock.
        """
        lines = [
            *self._describe_sizes(report),
            *self._describe_lone_restarts(report),
            *self._describe_tasks(report),
            *self._describe_waiting(_format_waiting(report), now),
            *self._describe_stragglers(report),
            *self._describe_state(report),
        ]
        self._last = report
        return lines

    def _describe_sizes(self, report: JobReport) -> list[str]:
        """Report the tasks that a session goes without, once."""
        lines = []
        for size in report.sizes:
            present = report.session, size.left_out
            if size.left_out and self._reported_sizes.get(size.role) != present:
                self._reported_sizes[size.role] = present
                left_out = format_task_ranges(size.left_out)
                without = f"Session {report.session} runs without {left_out}"
                lines.append(f"{without}: {size.role} has {size.tasks} of {size.most} tasks (min {size.least})")
        return lines

    def _describe_stragglers(self, report: JobReport) -> list[str]:
        """Report slow tasks when they change."""
        before = self._last.stragglers if self._last else ""
        return [report.stragglers] if report.stragglers not in ("", before) else []

    def _describe_state(self, report: JobReport) -> list[str]:
        if not self._has_new_state(report):
            return []
        if report.state is JobState.SUCCEEDED:
            return [format_outcome(report)]
        if report.state is JobState.STOPPING and report.failure:
            return _format_stop(report, report.failure)
        why = report.restarting or (report.failure.reason if report.failure else "")
        if report.state is JobState.RESTARTING and why:
            self._has_restart_reason = True
            return [f"Restarting: {why}"]
        return []

    def _has_new_state(self, report: JobReport) -> bool:
        return report.state is not (self._last.state if self._last else JobState.SUBMITTED)

    def _describe_lone_restarts(self, report: JobReport) -> list[str]:
        """Report tasks that restart alone, once per task attempt; a fast one may be running again before a report."""
        found = []
        for task in report.tasks:
            if task.try_ > 1 and task.state is TaskState.RUNNING:
                ended = task.session, task.try_ - 1
            elif task.try_ and task.session == report.session and task.state in _STARTING_STATES:
                ended = task.session, task.try_
            else:
                continue
            if task.note and self._lone_restarts_reported.get(task.task) != ended:
                self._lone_restarts_reported[task.task] = ended
                found.append(task)
        if len(found) > _MAX_SINGLE_LINES:
            return [f"Restarting {_format_ranges(found)}, each alone"]
        return [f"Restarting {task.task}: {task.note}" for task in found]

    def _describe_tasks(self, report: JobReport) -> list[str]:
        changed: dict[TaskState, list[TaskReport]] = {}
        absent = {name for size in report.sizes for name in size.left_out}  # reported when they were left out
        for task in report.tasks:
            state = task.state, task.session, task.try_
            if self._states.get(task.task) != state and not _is_start_pending(task):
                self._states[task.task] = state
                if task.state in _REPORTED_STATES and not (task.state is TaskState.STOPPED and task.id in absent):
                    changed.setdefault(task.state, []).append(task)
        causes_first = sorted(changed.items(), key=lambda item: item[0] not in _FAILED_STATES)
        gives_reason = report.state is JobState.RESTARTING and self._has_new_state(report)
        return [line for state, group in causes_first for line in _format_group_lines(state, group, gives_reason)]

    def _describe_waiting(self, waiting: str, now: float) -> list[str]:
        if not waiting:
            self._waiting_since = None
            return []
        if self._waiting_since is None:
            self._waiting_since = self._reported_at = now
            self._shape = self._reported_shape = ""
        shape = _NUMBER.sub("#", waiting)
        if shape != self._shape:
            self._shape, self._shape_since = shape, now
        silence = now - self._reported_at
        if shape == self._reported_shape:
            due = silence >= self._repeat_after
            self._repeat_after *= 2 if due else 1
        else:
            self._repeat_after = _REPEAT_SECONDS
            due = now - self._shape_since >= _WAITING_DELAY_SECONDS or silence >= _CHANGING_DELAY_SECONDS
        if not due:
            return []
        self._reported_shape, self._reported_at = shape, now
        return [waiting]


def _format_waiting(report: JobReport) -> str:
    stacks = f"; see: tony stacks {report.job}" if report.stalled else ""
    return f"{report.waiting}{stacks}" or report.unfinished


def _format_stop(report: JobReport, failure: Failure) -> list[str]:
    """Return why tasks are stopped, unless a task's own line has the reason; nothing if none has to be stopped."""
    if not any(task.state is TaskState.STOPPING for task in report.tasks):
        return []
    has_line = any(task.id == failure.task and task.state in _FAILED_STATES for task in report.tasks)
    return ["Stopping the other tasks" if has_line else f"Stopping: {failure.reason}"]


def _is_start_pending(task: TaskReport) -> bool:
    """Return True if the start of a program was commanded and is not confirmed yet."""
    return task.state is TaskState.RUNNING and task.pid is None


def _format_group_lines(state: TaskState, group: Sequence[TaskReport], gives_reason: bool) -> list[str]:
    """Return a line per task, or one for many.

    Args:
        gives_reason: the line of the job that follows says how tasks failed.
    """
    if len(group) <= _MAX_SINGLE_LINES:
        return [_format_line(task, gives_reason) for task in group]
    tasks = _format_ranges(group)
    return [f"Started {tasks}" if state is TaskState.RUNNING else f"{tasks} {_REPORTED_STATES[state]}"]


def _format_line(task: TaskReport, gives_reason: bool) -> str:
    if task.state is TaskState.RUNNING:
        return f"Started {task.task} on {task.host} (pid {task.pid})"
    text = f"{task.task} {_REPORTED_STATES[task.state]}"
    if task.state in _FAILED_STATES:
        if gives_reason:
            return text
        how = task.note or task.signal or (f"exit code {task.exit_code}" if task.exit_code is not None else "")
        return f"{text}: {how}" if how else text
    note = task.note if task.state is TaskState.SUCCEEDED and not task.note_repeats_exit else ""
    return f"{text}: {note}" if note else text


def _format_ranges(tasks: Iterable[TaskReport]) -> str:
    """Return tasks as ranges: `chief:0, worker:0-6, worker:8`."""
    return format_task_ranges(task.id for task in tasks)
