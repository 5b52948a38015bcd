"""The status of a job as lines of text: state, tasks, restarts, what it waits for, why it failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING

from tony import clock
from tony.cli.terminal.terminal_text import cut, format_age, format_clock_time, format_table, wrap_sentence
from tony.cli.text.metric_values import NOTHING, format_measure, format_steps
from tony.control_characters import escape
from tony.jobs.failure_text import format_note, format_report, format_warnings
from tony.jobs.next_commands import format_next_commands, list_next_commands
from tony.jobs.root_cause import build_root_cause, find_past_root_cause
from tony.model.failure import FailureClass
from tony.model.job_report import JobReport, RoleSize, TaskReport
from tony.model.state_directory import JobFolder
from tony.model.states import TaskState
from tony.units import Unit, format_duration, format_size

if TYPE_CHECKING:
    from tony.history.event_queries import EventSource

_HEADING = ("TASK", "STATE", "HOST", "PID", "SINCE", "SESSION", "STEP", "RATE", "MEMORY", "OUTPUT", "EXIT", "NOTE")
#: Columns that are dropped when the terminal is too narrow, in this order.
_EXPENDABLE = ("HOST", "SINCE", "SESSION", "OUTPUT", "PID", "MEMORY", "RATE", "STEP")
#: The same for the live table.
_LIVE_HEADING = ("TASK", "STATE", "HOST", "PID", "FOR", "STEP", "RATE", "MEMORY", "OUTPUT", "NOTE")
_LIVE_EXPENDABLE = ("HOST", "PID", "FOR", "OUTPUT", "MEMORY", "RATE", "STEP")
#: Columns that are left out if no task has a value.
_OPTIONAL = ("STEP", "RATE", "MEMORY")
#: Most restarts that are listed.
_MAX_RESTARTS_SHOWN = 5


def format_status(
    report: JobReport,
    columns: int | None = None,
    sessions: Mapping[int, str] = MappingProxyType({}),
    alone: Sequence[tuple[int, str]] = (),
    progress: str = "",
    portal: str | None = None,
) -> list[str]:
    """Return the lines that `tony status` prints.

    Args:
        columns: width of the terminal; None: nothing is cut.
        sessions: later session -> why it began.
        alone: session, and a task that restarted alone in it, with the reason.
        progress: the progress of the job, with its slowest or stalled task.
        portal: address of the portal that the report comes from.
    """
    now = clock.wall()
    lines = [format_headline(report, now), *format_task_table(report, now, columns), *_format_sizes(report)]
    lines += _format_restarts(report, sessions, alone)
    if report.resumption:
        lines.append(escape(f"  session {report.session} {report.resumption}"))
    lines += _format_raised_memory(report)
    progress = "" if report.stalled else progress  # of the task that the others wait for, the next sentence says more
    for sentence in filter(None, (progress, report.waiting, report.stragglers, report.unfinished)):
        lines += ["", escape(sentence)]
    if report.warnings:
        lines += ["", *(escape(line) for line in format_warnings(report))]
    failure_lines = format_report(report, portal) if report.state.ended else []
    if failure_lines:
        lines += ["", *(escape(line) for line in failure_lines)]
    elif report.failure is not None:
        killed = report.failure.failure_class is FailureClass.KILLED
        first = "" if killed else f"first failure of session {report.failure.session}: "
        lines += ["", escape(f"{first}{report.failure.reason}")]
    if not failure_lines and not (report.failure and report.failure.failure_class is FailureClass.KILLED):
        cause = find_past_root_cause(report) or build_root_cause(report)
        lines += map(escape, format_next_commands(list_next_commands(report, cause, portal=portal)))
    return lines


def find_further_sessions(source: EventSource, report: JobReport) -> dict[int, str]:
    """Return session -> why it began, for all but the first; reads nothing for a job with one session."""
    if report.session < 2:
        return {}
    from tony.core.sentences import format_sizes  # late: only jobs that restarted have these events
    from tony.history.event_queries import read_session_reasons, read_session_sizes

    reasons = read_session_reasons(source)
    if report.session_reason:  # the AM knows it even if the log is not here
        reasons[report.session] = report.session_reason
    found = {number: reasons.get(number, "an unknown reason") for number in range(2, report.session + 1)}
    if not report.sizes:
        return found
    sizes = {number: format_sizes(size.tasks, size.absent) for number, size in read_session_sizes(source).items()}
    return {number: f"{reason}; {sizes[number]}" if number in sizes else reason for number, reason in found.items()}


def find_lone_restarts(source: EventSource, report: JobReport) -> list[tuple[int, str]]:
    """Return session and text for each task that restarted alone; reads nothing for a job without restarts."""
    if report.restarts is None:
        return []
    from tony.history import event_queries  # late: only jobs that restarted have these events

    return [
        (session, f"{found.task} alone: {found.failure} ({found.reason})")
        for session, found in event_queries.list_lone_restarts(source)
        if session <= report.session
    ]


def lacks_restarts(report: JobReport, alone: Sequence[tuple[int, str]]) -> bool:
    """Return True if the report counts more restarts than later sessions and lone restarts are known."""
    count = report.restarts.total if report.restarts else 0
    return count > max(0, report.session - 1) + len(alone)


def lacks_reasons(folder: JobFolder, report: JobReport) -> bool:
    """Return True if the reason of a session is neither in the local log nor in the report."""
    from tony.history.event_queries import read_session_reasons  # late: only jobs that restarted have these events

    known = {report.session} if report.session_reason else set()
    return not read_session_reasons(folder).keys() | known >= set(range(2, report.session + 1))


def _format_sizes(report: JobReport) -> list[str]:
    """Return the size of each elastic role in the present session."""
    if not report.sizes or not report.session:
        return []
    return [
        "",
        f"Session {report.session}:",
        *(escape(f"  {_format_size_line(report, size)}") for size in report.sizes),
    ]


def _format_size_line(report: JobReport, size: RoleSize) -> str:
    """Return the size of an elastic role; while tasks lack a container, also how many have one.

    For a job that has ended, counts the tasks whose program was started.
    """
    present = sum(_is_present(task, report.session) for task in report.tasks if task.role == size.role)
    count = f"{size.tasks} of {size.most}"
    if present >= size.tasks:
        return f"{size.role} has {count} tasks (min {size.least})"
    if report.state.ended:
        return f"{size.role} requested {count} tasks (min {size.least}); {present or 'none'} of them ran"
    return f"{size.role} requests {count} tasks (min {size.least}); {present or 'none'} with a container"


def _is_present(task: TaskReport, session: int) -> bool:
    if task.state in (TaskState.STARTING, TaskState.REGISTERED):
        return True
    if task.state in (TaskState.PENDING, TaskState.REQUESTED):
        return False
    ran = task.state in (
        TaskState.SUCCEEDED,
        TaskState.FAILED,
    )  # perhaps in an earlier session, whose result still counts
    return ran or task.session == session


def _format_raised_memory(report: JobReport) -> list[str]:
    """Return the memory of roles that get more than the job file says."""
    roles = [
        escape(f"{role.role} {format_size(role.memory)} (job file: {format_size(role.requested)})")
        for role in report.raised_memory
    ]
    return [f"Memory of each task: {', '.join(roles)}"] if roles else []


def _format_budget(report: JobReport) -> list[str]:
    restarts = report.restarts
    if restarts is None:
        return []
    free = f", and {restarts.free} that did not count" if restarts.free else ""
    return ["", f"Restarts: {restarts.charged} of {restarts.most} used (max_restarts){free}"]


def _format_restarts(report: JobReport, sessions: Mapping[int, str], alone: Sequence[tuple[int, str]]) -> list[str]:
    restarts = [(number, f"  session {number} after {reason}") for number, reason in sessions.items()]
    restarts += [(number, f"  session {number}, {text}") for number, text in alone]
    restarts.sort(key=itemgetter(0))  # a session begins before its tasks restart
    if not restarts:
        return _format_budget(report)
    times = "once" if len(restarts) == 1 else f"{len(restarts)} times"
    last = restarts[-_MAX_RESTARTS_SHOWN:]
    shown = f", the last {len(last)}" if len(last) < len(restarts) else ""
    return ["", f"Restarted {times}{shown}:", *(escape(line) for _, line in last), *_format_budget(report)[1:]]


def format_headline(report: JobReport, now: float) -> str:
    """Return the job on one line."""
    state = f"{report.state.value}, stalled" if report.stalled else report.state.value
    parts = [escape(report.job), escape(report.name), state]
    if report.session:
        parts.append(f"session {report.session}")
    if report.attempt > 1:
        parts.append(f"AM attempt {report.attempt}")
    if report.submitted is not None:
        took = format_duration(max(0.0, (report.ended or now) - report.submitted))
        parts.append(f"submitted {format_clock_time(report.submitted)}, {'took' if report.ended else 'for'} {took}")
    if report.exit_code is not None:
        parts.append(f"exit code {report.exit_code}")
    return "  ".join(parts)


def format_task_table(report: JobReport, now: float, columns: int | None) -> list[str]:
    """Return one line per task, below a heading."""
    rows = [_HEADING, *(_format_row(report, task, now) for task in report.tasks)]
    if not any(row[-1] for row in rows[1:]):
        rows = [row[:-1] for row in rows]
    return _format_columns(rows, columns, _EXPENDABLE)


def _format_columns(rows: Sequence[Sequence[str]], columns: int | None, expendable: Sequence[str]) -> list[str]:
    """Return a table without the optional columns that have no value.

    Args:
        expendable: headings of the columns that are dropped when the terminal is too narrow, in this order.
    """
    empty = [
        place
        for place, heading in enumerate(rows[0])
        if heading in _OPTIONAL and all(row[place] == NOTHING for row in rows[1:])
    ]
    kept = [[text for place, text in enumerate(row) if place not in empty] for row in rows]
    return format_table(kept, columns, [kept[0].index(heading) for heading in expendable if heading in kept[0]])


def _format_row(report: JobReport, task: TaskReport, now: float) -> tuple[str, ...]:
    since = "-" if task.since is None else f"{format_clock_time(task.since)} ({format_age(task.since, now)})"
    ended = task.signal or ("-" if task.exit_code is None else str(task.exit_code))
    session = str(task.session or "-")
    used = (*_format_use(task), _format_output_age(task))
    return (*_format_place(task), since, session, *used, escape(ended), escape(format_note(report, task)))


def _format_place(task: TaskReport) -> tuple[str, str, str, str]:
    """Return the first columns of a task: its name, state, host and process id."""
    pid = "-" if task.pid is None else str(task.pid)
    return escape(task.task), task.state.value, escape(task.host or "-"), pid


def _format_use(task: TaskReport) -> tuple[str, str, str]:
    """Return the step, the rate and the memory of a task."""
    return (
        format_steps(task.step, task.total),
        format_measure(task.rate, Unit.PER_SECOND),
        format_measure(task.memory, Unit.BYTES),
    )


def _format_output_age(task: TaskReport) -> str:
    return "-" if task.last_output_age is None else f"{format_duration(task.last_output_age)} ago"


def format_live_table(report: JobReport, now: float, columns: int, rows: int, progress: str = "") -> list[str]:
    """Return the job on one line, a row for each task (or each role if there are too many), and what it waits for.

    Args:
        columns, rows: the available space.
        progress: the progress of the job; empty if it is unknown.
    """
    lines = [cut(format_live_headline(report, now), columns)]
    if len(report.tasks) <= rows:
        rows_of_tasks = [_LIVE_HEADING, *(_format_live_row(report, task, now) for task in report.tasks)]
        lines += _format_columns(rows_of_tasks, columns, _LIVE_EXPENDABLE)
    else:
        lines += format_table([("ROLE", "TASKS"), *_format_role_rows(report.tasks)], columns)
    for text in filter(None, (progress, report.waiting, report.stragglers, report.unfinished)):
        lines += wrap_sentence(escape(text), columns)
    if report.stalled:
        lines.append(cut(f"see: tony stacks {escape(report.job)}", columns))
    return lines


def format_live_headline(report: JobReport, now: float) -> str:
    """Return the job on one line that begins with its state, which changes."""
    word, until = ("for", now) if report.ended is None else ("after", report.ended)
    took = f" {word} {format_age(report.submitted, until)}" if report.submitted is not None else ""
    session = f"  session {report.session}" if report.session else ""
    return f"{report.state.value}{took}{session}  {escape(report.name)}  {escape(report.job)}"


def _format_live_row(report: JobReport, task: TaskReport, now: float) -> tuple[str, ...]:
    ended = task.signal or (f"exit code {task.exit_code}" if task.exit_code else "")
    note = escape(format_note(report, task) or ended)
    return (*_format_place(task), format_age(task.since, now), *_format_use(task), _format_output_age(task), note)


def _format_role_rows(tasks: tuple[TaskReport, ...]) -> list[tuple[str, str]]:
    """Return role -> number of its tasks in each state."""
    counts: dict[str, Counter[TaskState]] = {}
    for task in tasks:
        counts.setdefault(task.role, Counter())[task.state] += 1
    return [
        (escape(role), ", ".join(f"{number} {state.value}" for state, number in counter.items()))
        for role, counter in counts.items()
    ]
