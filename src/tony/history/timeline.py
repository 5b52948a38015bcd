"""A job's timeline: the event log as spans (what each task was doing when) and markers. Pure.

The event log is fed to the same state machine that ran the job, and each change of a task's state ends one span and
starts the next. So the timeline needs no rules of its own and agrees with status reports.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from operator import attrgetter

from tony.core import events as ev
from tony.core.application import Application
from tony.core.sentences import describe_note
from tony.core.state import Task
from tony.errors import InvalidTransitionError
from tony.history.event_log import LogEntry
from tony.model.setting_choices import RoleKind
from tony.model.states import JobState, TaskState
from tony.model.submission_record import JobRecord


class TaskPhase(Enum):
    """Phase of a task."""

    WAITING = "waiting"  #: for a container, or with one for the next session
    SET_UP = "set-up"  #: container setup: its executor is starting
    RENDEZVOUS = "rendezvous"  #: ready, waiting for other tasks
    RUNNING = "running"  #: its program was started
    STOPPING = "stopping"  #: its program was asked to stop
    IDLE = "idle"  #: its program has exited, its container is still allocated
    NO_CONTAINER = "gone"  #: it has no container and needs none: not due yet, left out, or finished


class MarkerKind(Enum):
    """Meaning of a marker."""

    FAILURE = "failure"  #: a failure was classified
    RESTART = "restart"  #: the next session opened, or a single task is restarted
    DEATH = "death"  #: a container was lost while its program ran
    CHECKPOINT = "checkpoint"  #: the program saved a checkpoint
    ATTEMPT = "attempt"  #: another AM attempt took over
    STALL = "stall"  #: the programs stopped making progress
    COMMAND = "command"  #: a user requested something


#: Markers kept, newest first to stay: each task of the largest job may fail several times.
MAX_MARKS = 100_000
#: Phases in which a program is alive.
_PROGRAM = (TaskPhase.RUNNING, TaskPhase.STOPPING)


@dataclass(frozen=True, slots=True)
class Span:
    """A task was in one phase from `since` to `until` (seconds since the job was accepted).

    Attributes:
        session, try_: session and task attempt; 0 for none yet.
        held: it had a container.
        again: it follows a failure, a lost container or a user's request: the task had been further before.
        note: how the program exited or why the task was left out; for display, often empty.
    """

    task: str
    session: int
    try_: int
    what: TaskPhase
    since: float
    until: float
    note: str = ""
    held: bool = False
    again: bool = False

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.until - self.since


@dataclass(frozen=True, slots=True)
class SessionSpan:
    """One session, from its opening to the next one's; `reason` says why it opened."""

    number: int
    since: float
    until: float
    reason: str


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at one time; `task` is empty if it concerns no single task."""

    what: MarkerKind
    at: float
    task: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class TaskResources:
    """Resources allocated to each task of a role: bytes of memory, GPUs, cores."""

    kind: RoleKind
    memory: int
    gpus: int
    vcores: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The timeline of a job, possibly still running. Times are seconds since it was accepted.

    Attributes:
        accepted: seconds since 1970 at which it was accepted; informational.
        until: end of the timeline.
        spans: grouped by task in the order of the job file; those of one task cover 0 to `until` without gaps.
        marks: markers in order of time, the latest `MAX_MARKS` of the log.
        queued: intervals in which the scheduler had no free resources.
        first_start: when the first program was started.
        ended: when the job ended; None if it has not.
        doubt: first event that the state machine did not accept; empty if none.
        held: task -> container -> host, in order.
    """

    job: str
    accepted: float
    until: float
    spans: tuple[Span, ...]
    sessions: tuple[SessionSpan, ...]
    marks: tuple[Mark, ...]
    roles: Mapping[str, TaskResources]
    queued: tuple[tuple[float, float], ...] = ()
    first_start: float | None = None
    ended: float | None = None
    doubt: str = ""
    held: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)

    @property
    def lone_restarts(self) -> list[Mark]:
        """Return the latest restart of each task that restarted alone, newest first."""
        newest = {mark.task: mark for mark in self.marks if mark.what is MarkerKind.RESTART and mark.task}
        return sorted(newest.values(), key=lambda mark: -mark.at)

    def group_by_task(self) -> Iterator[tuple[str, list[Span]]]:
        """Yield each task with its spans."""
        for task, spans in itertools.groupby(self.spans, key=attrgetter("task")):
            yield task, list(spans)


def with_checkpoints(line: Timeline, saved: Iterable[tuple[str, float, int]]) -> Timeline:
    """Add a marker for each checkpoint, given as task, time and step."""
    more = (Mark(MarkerKind.CHECKPOINT, at, task, f"step {step}") for task, at, step in saved)
    return replace(line, marks=tuple(sorted([*line.marks, *more], key=lambda mark: mark.at)))


@dataclass(slots=True)
class _Row:
    """State of one task while the log is read: its closed spans and the open one."""

    task: Task
    closed: list[Span]
    what: TaskPhase = TaskPhase.WAITING
    since: float = 0.0
    session: int = 0
    try_: int = 0
    note: str = ""
    held: bool = False
    again: bool = False
    held_in: dict[str, str] = field(default_factory=dict)  # container -> host
    redo: bool = False  # it has been further before, and does not run again yet


class TimelineReader:
    """Builds a timeline incrementally from the events of a log."""

    def __init__(self, record: JobRecord) -> None:
        self._changed_tasks: list[Task] = []
        self._app = Application(record.job_id, record.spec, self._changed_tasks.append)
        self._state = self._app.state
        self._rows = {task.id: _Row(task, []) for task in self._state.tasks.values()}
        self._queued_since: float | None = 0.0
        self._sessions: list[tuple[int, float, str]] = []
        self._queued: list[tuple[float, float]] = []
        self._marks: deque[Mark] = deque(maxlen=MAX_MARKS)
        self._first_start: float | None = None
        self._last = 0.0
        self._accepted = record.submitted
        self._first_error = ""

    def take(self, entry: LogEntry) -> None:
        """Process the next event of the log."""
        event, at = entry.event, max(entry.at, self._last)
        kind = type(event)
        before = self._state.job
        concerned = self._find_container_task(event) if kind in _IN_CONTAINERS else None
        lived = concerned is not None and concerned.living and not self._is_released(event)
        try:
            self._app.handle(event, at)
        except InvalidTransitionError as error:
            self._first_error = self._first_error or f"event {entry.seq} ({event.kind}): {error}"
            return
        self._last = at
        if kind in _MARKED_EVENTS:
            self._add_markers(event, at, concerned if lived else None)
        self._update_queue(at)
        after = self._state.job
        if before is not after and after is JobState.RESTARTING:
            for row in self._rows.values():
                row.redo = row.redo or row.held or row.task.try_ > 0
        changed: Iterable[Task] = self._changed_tasks
        if kind in _AFFECT_ALL_TASKS or (before is not after and _affects_all_tasks(before, after)):
            changed = self._state.tasks.values()
        elif kind in _IN_CONTAINERS:
            changed = {
                id(task): task for task in (*self._changed_tasks, concerned, self._find_container_task(event)) if task
            }.values()
        for task in changed:
            its_own = event.at if isinstance(event, ev.Exited) and event.task == task.id else None
            self._update_span(self._rows[task.id], at, its_own)
        self._changed_tasks.clear()

    def timeline(self, until: float | None = None) -> Timeline:
        """Return the timeline so far; open spans end at `until`, or at the last event."""
        state = self._state
        end = self._last if state.job.ended or until is None else max(until, self._last)
        if state.job.ended and state.ended_at is not None:
            end = max(state.ended_at, 0.0)
        queued = list(self._queued)
        if self._queued_since is not None and end > self._queued_since:
            queued.append((self._queued_since, end))
        return Timeline(
            job=state.job_id,
            accepted=self._accepted,
            until=end,
            spans=tuple(span for row in self._rows.values() for span in _list_closed_spans(row, end)),
            sessions=tuple(_sessions(self._sessions, end)),
            marks=tuple(self._marks),
            roles={
                name: TaskResources(role.kind, role.resources.memory, role.resources.gpus, role.resources.vcores)
                for name, role in state.spec.effective_roles.items()
            },
            queued=tuple(queued),
            first_start=self._first_start,
            ended=state.ended_at,
            doubt=self._first_error,
            held={str(row.task.id): tuple(row.held_in.items()) for row in self._rows.values() if row.held_in},
        )

    # --- one event ------------------------------------------------------------------------------------------------

    def _find_container_task(self, event: ev.Event) -> Task | None:
        """Return the task in the container that an event of `_IN_CONTAINERS` is about."""
        held = self._state.containers.get(_container(event))
        return self._state.tasks[held.task] if held and held.task else None

    def _is_released(self, event: ev.Event) -> bool:
        held = self._state.containers.get(_container(event))
        return held is None or held.is_released

    def _update_queue(self, at: float) -> None:
        """Update the queue intervals. The job counts as queued until its first AM starts."""
        state, since = self._state, self._queued_since
        if state.queue_reason and since is None and not state.final:
            self._queued_since = at
        elif not state.queue_reason and since is not None:
            self._queued_since = None
            if at > since:
                self._queued.append((since, at))

    def _add_markers(self, event: ev.Event, at: float, lost: Task | None) -> None:
        match event:
            case ev.AttemptStarted(attempt=attempt):
                if attempt > 1:
                    note = f"AM attempt {attempt} took over"
                    self._marks.append(Mark(MarkerKind.ATTEMPT, at, note=note))
                self._accepted = self._state.accepted_wall or self._accepted
            case ev.SessionOpened(session=session, reason=reason):
                self._sessions.append((session, at, reason))
                if session > 1:
                    self._marks.append(Mark(MarkerKind.RESTART, at, note=reason))
            case ev.FailureClassified(task=task, failure=failure, decision=decision, reason=reason):
                name = str(task) if task else ""
                self._marks.append(Mark(MarkerKind.FAILURE, at, name, f"{failure} -> {decision} ({reason})"))
                if decision is ev.FailureResponse.RETRY:
                    self._marks.append(Mark(MarkerKind.RESTART, at, name, failure))
            case ev.ContainerEnded(cause=cause) if lost is not None:
                self._marks.append(Mark(MarkerKind.DEATH, at, str(lost.id), cause))
            case ev.Stalled(task=task, what=what, reason=reason):
                self._marks.append(Mark(MarkerKind.STALL, at, str(task or ""), f"no further {what}: {reason}"))
            case ev.JobRequest(actor=actor, what=what):
                self._marks.append(Mark(MarkerKind.COMMAND, at, note=f"{actor} requested {what}"))

    # --- one task -------------------------------------------------------------------------------------------------

    def _update_span(self, row: _Row, at: float, ended: float | None) -> None:
        """End the open span if the task's phase has changed."""
        task, state = row.task, self._state
        if task.state is TaskState.RUNNING:
            row.redo = False
            if self._first_start is None:
                self._first_start = at
        held = task.container is not None
        if task.container is not None and task.container not in row.held_in:
            granted = state.containers.get(task.container)
            row.held_in[task.container] = granted.host if granted else task.host or ""
        what = _phase_of(task, state.job, begun=state.session > 0, held=held)
        try_ = task.try_ if task.session == state.session else 0
        again = row.redo or task.retry_at is not None
        same = (what, held, again) == (row.what, row.held, row.again)
        if same and (what not in _PROGRAM or (state.session, try_) == (row.session, row.try_)):
            row.session, row.try_ = state.session, try_
            return
        moment = at if ended is None else min(max(ended, row.since), at)
        if row.what in _PROGRAM:
            row.note = describe_note(task.note)
        if moment > row.since:
            row.closed.append(_span(row, moment))
        row.since = moment
        row.what, row.session, row.try_, row.held, row.again = what, state.session, try_, held, again
        row.note = describe_note(task.note) if what in (TaskPhase.NO_CONTAINER, TaskPhase.IDLE) else ""


#: Events that may change the phase of tasks that made no state transition.
_AFFECT_ALL_TASKS = frozenset({ev.AttemptStarted, ev.ReconcileClosed, ev.SessionOpened})
#: Events about a container.
_IN_CONTAINERS = frozenset(kind for kind in ev.EVENTS.values() if any(f.name == "container" for f in fields(kind)))
#: Events that yield markers or sessions.
_MARKED_EVENTS = frozenset(
    {ev.AttemptStarted, ev.SessionOpened, ev.FailureClassified, ev.ContainerEnded, ev.Stalled, *ev.REQUESTS}
)


def _container(event: ev.Event) -> str:
    """Return the container of an event of `_IN_CONTAINERS`; empty for none."""
    return getattr(event, "container", None) or ""


def _affects_all_tasks(before: JobState, after: JobState) -> bool:
    return JobState.RESTARTING in (before, after) or after.ended


def _phase_of(task: Task, job: JobState, *, begun: bool, held: bool) -> TaskPhase:
    match task.state:
        case TaskState.PENDING:
            return TaskPhase.WAITING if held or not begun or job is JobState.RESTARTING else TaskPhase.NO_CONTAINER
        case TaskState.REQUESTED:
            return TaskPhase.WAITING
        case TaskState.STARTING:
            return TaskPhase.SET_UP
        case TaskState.REGISTERED:
            return TaskPhase.RENDEZVOUS
        case TaskState.RUNNING:
            return TaskPhase.RUNNING
        case TaskState.STOPPING:
            return TaskPhase.STOPPING
    if job is JobState.RESTARTING and task.state is not TaskState.SUCCEEDED:
        return TaskPhase.WAITING
    return TaskPhase.IDLE if held else TaskPhase.NO_CONTAINER


def _span(row: _Row, until: float) -> Span:
    return Span(str(row.task.id), row.session, row.try_, row.what, row.since, until, row.note, row.held, row.again)


def _list_closed_spans(row: _Row, end: float) -> Iterator[Span]:
    """Yield the spans of a task up to `end`; a span dated later by a host's clock ends there, too."""
    for span in row.closed:
        if span.since < end:
            yield span if span.until <= end else replace(span, until=end)
    if row.since < end:
        yield _span(row, end)


def _sessions(opened: list[tuple[int, float, str]], end: float) -> Iterator[SessionSpan]:
    ends = [since for _, since, _ in opened[1:]] + [end]
    for (number, since, reason), until in zip(opened, ends, strict=False):
        yield SessionSpan(number, since, max(since, until), reason)
