"""What changed from one report to the next, in lines for a person. Pure: time is an argument."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from tony.cli.status_text import note_of
from tony.jobs.failure_text import outcome
from tony.model.ids import TaskId
from tony.model.job_report import JobReport, TaskReport
from tony.model.states import JobState, TaskState
from tony.model.task_ranges import format_task_ranges

#: Seconds somebody must have been missing before it is said: in a normal start nobody is for long.
_PATIENCE = 1.0
#: Seconds after which it is said although it changes all the time, as when many tasks come one by one.
_RESTLESS = 5.0
#: Seconds after which the same is said again; doubled each time.
_AGAIN = 30.0
#: Tasks that are told one by one when they change together.
_ONE_BY_ONE = 3
#: States of a task that are told when it reaches them; on the ways between, `waiting` says who is missing.
_TOLD: Mapping[TaskState, str] = {
    TaskState.RUNNING: "runs",
    TaskState.SUCCEEDED: "succeeded",
    TaskState.FAILED: "failed",
    TaskState.STOPPED: "stopped",
    TaskState.LOST: "lost",
}
_TOLD_OF_SEVERAL: Mapping[TaskState, str] = {TaskState.RUNNING: "run"}
#: States of a task whose program is to start.
_TO_START = (TaskState.REQUESTED, TaskState.STARTING, TaskState.REGISTERED)
_NUMBER = re.compile(r"\d+(\.\d+)?")


class StatusChanges:
    """Remembers what was told.

    Args:
        failures: tell a job's failure; not needed where it will be explained right below.
    """

    def __init__(self, *, failures: bool = True) -> None:
        self._failures = failures
        self._last: JobReport | None = None
        self._states: dict[str, tuple[TaskState, int, int]] = {}
        self._again: dict[str, tuple[int, int]] = {}
        self._waiting_since: float | None = None
        self._shape = ""
        self._shape_since = 0.0
        self._told_shape = ""
        self._told_at = 0.0
        self._repeat_after = _AGAIN
        self._told_sizes: dict[str, tuple[int, tuple[str, ...]]] = {}

    def tell(self, report: JobReport, now: float) -> list[str]:
        """What is new in a report.

        Args:
            now: seconds, of any clock that never goes back.
        """
        lines = [
            *self._beginning(report),
            *self._sizes(report),
            *self._lone_restarts(report),
            *self._tasks(report),
            *self._waiting(report.waiting or report.unfinished, now),
            *self._state(report),
        ]
        self._last = report
        return lines

    def _beginning(self, report: JobReport) -> list[str]:
        if self._last is not None:
            return []
        count = len(report.tasks)
        tasks = f"{count} task{'s' if count != 1 else ''}"
        return [f"job {report.job} ({report.name}): {tasks} on {report.scheduler}; its record: {report.folder}"]

    def _sizes(self, report: JobReport) -> list[str]:
        """Who is left out of a session, once."""
        lines = []
        for size in report.sizes:
            told = report.session, size.left_out
            if size.left_out and self._told_sizes.get(size.role) != told:
                self._told_sizes[size.role] = told
                left_out = ranges(task for task in report.tasks if task.task in size.left_out)
                has = f"session {report.session} goes without {left_out}"
                lines.append(f"{has}: {size.role} has {size.tasks} of {size.most} tasks (min {size.least})")
        return lines

    def _state(self, report: JobReport) -> list[str]:
        before = self._last.state if self._last else JobState.SUBMITTED
        if report.state is before:
            return []
        if report.state.ended:
            return [outcome(report)] if self._failures or report.state is JobState.SUCCEEDED else []
        why = report.restarting or (report.failure.reason if report.failure else "")
        if report.state is JobState.RESTARTING and why:
            return [f"restarting, because {why}"]
        if report.state is JobState.STOPPING:
            return [f"stopping, because {report.failure.reason}"] if report.failure else []
        return []

    def _lone_restarts(self, report: JobReport) -> list[str]:
        """Which tasks start again alone, and why; once for each try. The quickest run again before a report tells."""
        found = []
        for task in report.tasks:
            if task.try_ > 1 and task.state is TaskState.RUNNING:
                ended = task.session, task.try_ - 1
            elif task.try_ and task.session == report.session and task.state in _TO_START:
                ended = task.session, task.try_
            else:
                continue
            if task.note and self._again.get(task.task) != ended:
                self._again[task.task] = ended
                found.append(task)
        if len(found) > _ONE_BY_ONE:
            return [f"{ranges(found)} start again, each alone"]
        return [_again_line(task) for task in found]

    def _tasks(self, report: JobReport) -> list[str]:
        changed: dict[TaskState, list[TaskReport]] = {}
        absent = {name for size in report.sizes for name in size.left_out}  # told when they were left out
        for task in report.tasks:
            state = task.state, task.session, task.try_
            if self._states.get(task.task) != state and not _on_its_way(task):
                self._states[task.task] = state
                if task.state in _TOLD and not (task.state is TaskState.STOPPED and task.task in absent):
                    changed.setdefault(task.state, []).append(task)
        return [line for state, group in changed.items() for line in _group_lines(state, group)]

    def _waiting(self, waiting: str, now: float) -> list[str]:
        if not waiting:
            self._waiting_since = None
            return []
        if self._waiting_since is None:
            self._waiting_since = self._told_at = now
            self._shape = self._told_shape = ""
        shape = _NUMBER.sub("#", waiting)
        if shape != self._shape:
            self._shape, self._shape_since = shape, now
        silence = now - self._told_at
        if shape == self._told_shape:
            due = silence >= self._repeat_after
            self._repeat_after *= 2 if due else 1
        else:
            self._repeat_after = _AGAIN
            due = now - self._shape_since >= _PATIENCE or silence >= _RESTLESS
        if not due:
            return []
        self._told_shape, self._told_at = shape, now
        return [waiting]


def _again_line(task: TaskReport) -> str:
    """`evaluator:0 starts again in 2 s: evaluator:0 failed with exit code 3 (restart 2 of 3)`."""
    return f"{task.task} {'' if task.note.startswith('starts again') else 'starts again: '}{task.note}"


def _on_its_way(task: TaskReport) -> bool:
    """Whether a program was told to start and nobody has said yet that it did."""
    return task.state is TaskState.RUNNING and task.pid is None


def _group_lines(state: TaskState, group: Sequence[TaskReport]) -> list[str]:
    if len(group) > _ONE_BY_ONE:
        return [f"{ranges(group)} {_TOLD_OF_SEVERAL.get(state, _TOLD[state])}"]
    return [_line(task) for task in group]


def _line(task: TaskReport) -> str:
    said = f"{task.task} {_TOLD[task.state]}"
    if task.state is TaskState.RUNNING:
        return f"{said} on {task.host} (pid {task.pid})"
    if task.state is TaskState.FAILED or task.state is TaskState.LOST:
        how = task.note or task.signal or (f"exit code {task.exit_code}" if task.exit_code is not None else "")
        return f"{said}: {how}" if how else said
    note = note_of(task) if task.state is TaskState.SUCCEEDED else ""
    return f"{said}: {note}" if note else said


def ranges(tasks: Iterable[TaskReport]) -> str:
    """Many tasks in few words: `chief:0, worker:0-6, worker:8`."""
    return format_task_ranges(TaskId(task.role, task.index) for task in tasks)
