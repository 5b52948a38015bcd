"""A job's report as lines: how it stands, each task, who is missing, why it failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING

from tony import clock
from tony.cli.terminal_text import age, clock_time, safe, table
from tony.jobs.failure_text import page
from tony.model.job_report import FailureClass, JobReport, RoleSize, TaskReport
from tony.model.layout import JobFolder
from tony.model.states import TaskState
from tony.units import format_duration

if TYPE_CHECKING:
    from tony.history.session_facts import Told

_HEADING = ("TASK", "STATE", "HOST", "PID", "SINCE", "SESSION", "OUTPUT", "EXIT", "NOTE")
#: Columns that go when the terminal is too narrow, first to go first: host, since, session, output, pid.
_EXPENDABLE = (2, 4, 5, 6, 3)
#: Restarts that are told.
_LAST_SESSIONS = 5


def status_page(
    report: JobReport,
    columns: int | None = None,
    sessions: Mapping[int, str] = MappingProxyType({}),
    alone: Sequence[tuple[int, str]] = (),
    progress: str = "",
) -> list[str]:
    """What `tony status` prints.

    Args:
        columns: how wide the terminal is; None: nothing is cut.
        sessions: further session -> why it began.
        alone: session, and which task started again alone in it, and why.
        progress: how far the job is, and which task holds it up.
    """
    now = clock.wall()
    lines = [headline(report, now), *task_table(report, now, columns), *_sizes(report)]
    lines += _restarts(report, sessions, alone)
    for sentence in filter(None, (progress, report.waiting, report.unfinished)):
        lines += ["", safe(sentence)]
    verdict = page(report, here="status")
    if report.state.ended and verdict:
        lines += ["", *(safe(line) for line in verdict)]
    elif report.failure is not None:
        killed = report.failure.failure_class is FailureClass.KILLED
        first = "" if killed else f"first failure of session {report.failure.session}: "
        lines += ["", safe(f"{first}{report.failure.reason}")]
    return lines


def further_sessions(told: Told, report: JobReport) -> dict[int, str]:
    """Session -> why it began, for every session but the first; nothing is read for a job that has no other."""
    if report.session < 2:
        return {}
    from tony.core.gang_size import sizes_text
    from tony.history.session_facts import session_reasons, session_sizes

    reasons = session_reasons(told)
    if report.session_reason:  # who was asked knows it, wherever the log is
        reasons[report.session] = report.session_reason
    found = {number: reasons.get(number, "no reason is known") for number in range(2, report.session + 1)}
    if not report.sizes:
        return found
    sizes = {number: sizes_text(said.tasks, said.absent) for number, said in session_sizes(told).items()}
    return {number: f"{reason}; {sizes[number]}" if number in sizes else reason for number, reason in found.items()}


def lone_restarts(told: Told, report: JobReport) -> list[tuple[int, str]]:
    """Session, and which task started again alone in it, and why; nothing is read for a job in which nothing did."""
    if report.restarts is None:
        return []
    from tony.history import session_facts

    return [
        (session, f"{said.task} alone: {said.failure} ({said.reason.removeprefix(f'only {said.task}: ')})")
        for session, said in session_facts.lone_restarts(told)
        if session <= report.session
    ]


def lacks_restarts(report: JobReport, alone: Sequence[tuple[int, str]]) -> bool:
    """Whether there were more restarts than further sessions and these."""
    often = report.restarts.charged + report.restarts.free if report.restarts else 0
    return often > max(0, report.session - 1) + len(alone)


def lacks_reasons(folder: JobFolder, report: JobReport) -> bool:
    """Whether neither the log here nor the report says why each of the sessions began."""
    from tony.history.session_facts import session_reasons

    known = {report.session} if report.session_reason else set()
    return not session_reasons(folder).keys() | known >= set(range(2, report.session + 1))


def _sizes(report: JobReport) -> list[str]:
    """Of roles that may have fewer tasks: how many they have in the present session."""
    if not report.sizes or not report.session:
        return []
    return ["", f"session {report.session}:", *(safe(f"  {_size(report, size)}") for size in report.sizes)]


def _size(report: JobReport, size: RoleSize) -> str:
    """With how many tasks the session goes; as long as some lack a container, how many are wanted and how many there.

    Of a job that has ended, those are there whose programs were started.
    """
    there = sum(_is_there(task, report.session) for task in report.tasks if task.role == size.role)
    count = f"{size.tasks} of {size.most}"
    if there >= size.tasks:
        return f"{size.role} has {count} tasks (min {size.least})"
    if report.state.ended:
        return f"{size.role} wanted {count} tasks (min {size.least}); {there or 'none'} of them ran"
    return f"{size.role} wants {count} tasks (min {size.least}); {there or 'none'} with a container"


def _is_there(task: TaskReport, session: int) -> bool:
    if task.state in (TaskState.STARTING, TaskState.REGISTERED):
        return True
    if task.state in (TaskState.PENDING, TaskState.REQUESTED):
        return False
    ran = task.state in (TaskState.SUCCEEDED, TaskState.FAILED)  # maybe in an earlier session, and it need not again
    return ran or task.session == session


def _budget(report: JobReport) -> list[str]:
    said = report.restarts
    if said is None:
        return []
    free = f", {said.free} not charged" if said.free else ""
    return ["", f"restarts: {said.charged} of {said.most} (max_restarts){free}"]


def _restarts(report: JobReport, sessions: Mapping[int, str], alone: Sequence[tuple[int, str]]) -> list[str]:
    told = [(number, f"  session {number}: {reason}") for number, reason in sessions.items()]
    told += [(number, f"  session {number}, {said}") for number, said in alone]
    told.sort(key=itemgetter(0))  # a session begins before anything starts again in it
    if not told:
        return _budget(report)
    often = "once" if len(told) == 1 else f"{len(told)} times"
    last = told[-_LAST_SESSIONS:]
    shown = f", the last {len(last)} of them" if len(last) < len(told) else ""
    return ["", f"restarted {often}{shown}:", *(safe(line) for _, line in last), *_budget(report)[1:]]


def headline(report: JobReport, now: float) -> str:
    """The job on one line."""
    parts = [safe(report.job), safe(report.name), report.state.value]
    if report.session:
        parts.append(f"session {report.session}")
    if report.attempt > 1:
        parts.append(f"attempt {report.attempt}")
    if report.submitted is not None:
        took = format_duration(max(0.0, (report.ended or now) - report.submitted))
        parts.append(f"submitted {clock_time(report.submitted)}, {'took' if report.ended else 'for'} {took}")
    if report.exit_code is not None:
        parts.append(f"exit code {report.exit_code}")
    return "  ".join(parts)


def task_table(report: JobReport, now: float, columns: int | None) -> list[str]:
    """One line for each task, under a heading."""
    rows = [_HEADING, *(_row(task, now) for task in report.tasks)]
    if not any(row[-1] for row in rows[1:]):
        rows = [row[:-1] for row in rows]
    return table(rows, columns, _EXPENDABLE)


def _row(task: TaskReport, now: float) -> tuple[str, ...]:
    since = "-" if task.since is None else f"{clock_time(task.since)} ({age(task.since, now)})"
    output = "-" if task.last_output_age is None else f"{format_duration(task.last_output_age)} ago"
    ended = task.signal or ("-" if task.exit_code is None else str(task.exit_code))
    return (
        safe(task.task),
        task.state.value,
        safe(task.host or "-"),
        "-" if task.pid is None else str(task.pid),
        since,
        str(task.session or "-"),
        output,
        safe(ended),
        safe(note_of(task)),
    )


def note_of(task: TaskReport) -> str:
    """A task's note, unless it only repeats how the program ended."""
    return "" if task.note in (f"exit code {task.exit_code}", f"killed by {task.signal}") else task.note
