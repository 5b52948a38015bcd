"""Goodput accounting: assigns each second of each task to exactly one bucket. Pure functions.

The event log tells which phase a task is in (`timeline.py`); `tony.progress` and `tony.checkpoint` tell what the
user program does while it runs. If only one task of a gang reports, such as rank 0, its reports apply to all tasks of
its session, because they run in lockstep. A task attempt without reports, of a task that reported steps in other
attempts, is counted as warm-up. Only time in which steps were made is productive. If a program that reports steps
stops doing so for far longer than usual, it is stalled. Time of programs that report no steps is `unknown`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from tony.errors import PlatformError
from tony.history.timeline import Span, TaskPhase, TaskResources, Timeline
from tony.model.ids import parse_role
from tony.model.job_spec import GIB
from tony.model.progress import CheckpointRecord, Progress, ProgressRecords
from tony.model.progress_rules import is_repeating, is_stalled
from tony.model.setting_choices import RoleKind

HOUR = 3600.0
#: Relative tolerance for the sum of the buckets, for rounding errors.
_RELATIVE_TOLERANCE = 1e-9


class Bucket(Enum):
    """Use of a second."""

    QUEUE = "queue"  #: waiting: the scheduler had no free resources
    ALLOCATE = "allocate"  #: resources were free, the container was not allocated yet
    SET_UP = "set-up"  #: container setup; everything that a setup role does
    RENDEZVOUS = "rendezvous"  #: ready, waiting for other tasks
    WARM_UP = "warm-up"  #: the program ran and had not finished its first step
    PRODUCTIVE = "productive"  #: making steps
    STALLED = "stalled"  #: no step for far longer than usual
    UNKNOWN = "unknown"  #: the program ran, and no steps are reported
    CHECKPOINT = "checkpoint"  #: saving a checkpoint
    REDONE = "redone"  #: recomputing steps that had been made before (lost work)
    RESTART = "restart"  #: from a failure until the program ran again
    IDLE = "idle"  #: the program had exited, its container was still allocated


#: Buckets that need reported steps; their value is None without them.
OF_STEPS = (Bucket.WARM_UP, Bucket.PRODUCTIVE, Bucket.STALLED, Bucket.REDONE)
_BUCKETS = tuple(bucket.value for bucket in Bucket)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLedger:
    """The seconds of one task.

    Attributes:
        seconds: bucket -> seconds; None if not known: then they are part of `unknown` or of the step buckets.
        held: the same, only while it had a container.
        whole: the total: from the job's acceptance to the end of the task, without phases in which it was not due.
    """

    task: str
    role: str
    seconds: Mapping[str, float | None]
    held: Mapping[str, float | None]
    whole: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodputLedger:
    """The seconds of a job.

    Attributes:
        until: end of the accounted time, in seconds since the job was accepted.
        seconds: bucket -> task-seconds, over all tasks; None if not known of any task.
        gpu_hours, gb_hours, core_hours: the same for allocated resources; memory in GiB.
        whole, whole_gpu_hours, whole_gb_hours, whole_core_hours: the totals.
        goodput: productive share of the time in which containers were allocated, without `unknown`; None if no steps
            were reported.
        has_steps: True if any program reported steps.
    """

    until: float
    tasks: tuple[TaskLedger, ...]
    seconds: Mapping[str, float | None]
    gpu_hours: Mapping[str, float | None]
    gb_hours: Mapping[str, float | None]
    core_hours: Mapping[str, float | None]
    whole: float
    whole_gpu_hours: float
    whole_gb_hours: float
    whole_core_hours: float
    goodput: float | None
    has_steps: bool


#: Since, until and bucket of a piece of time.
Piece = tuple[float, float, Bucket]


def ledger(line: Timeline, marks: ProgressRecords | None = None) -> GoodputLedger:
    """Account a timeline.

    Args:
        marks: progress and checkpoints reported by user programs, if any.

    Raises:
        PlatformError: the buckets do not add up: a bug in tony.
    """
    facts = AttemptFacts(line, marks)
    tasks = tuple(_build_task_ledger(name, spans, facts) for name, spans in line.group_by_task())
    held = _Sums()
    for task in tasks:
        held.add(task, line.roles[task.role])
    seconds = {bucket: _sum(task.seconds[bucket] for task in tasks) for bucket in _BUCKETS}
    while_held = {bucket: _sum(task.held[bucket] for task in tasks) for bucket in _BUCKETS}
    whole, whole_held = math.fsum(task.whole for task in tasks), math.fsum(_list_known(while_held))
    known_held = whole_held - (while_held[Bucket.UNKNOWN.value] or 0.0)
    made = GoodputLedger(
        until=line.until,
        tasks=tasks,
        seconds=seconds,
        gpu_hours=held.gpus,
        gb_hours=held.memory,
        core_hours=held.cores,
        whole=whole,
        whole_gpu_hours=math.fsum(_list_known(held.gpus)),
        whole_gb_hours=math.fsum(_list_known(held.memory)),
        whole_core_hours=math.fsum(_list_known(held.cores)),
        goodput=(while_held[Bucket.PRODUCTIVE.value] or 0.0) / known_held if facts.steps and known_held > 0 else None,
        has_steps=facts.steps,
    )
    check(made)
    return made


def check(made: GoodputLedger) -> None:
    """Verify that the buckets add up to the totals.

    Raises:
        PlatformError: they do not.
    """
    for name, seconds, whole in [(task.task, task.seconds, task.whole) for task in made.tasks] + [
        ("the job", made.seconds, made.whole)
    ]:
        found = math.fsum(_list_known(seconds))
        wrong = any(value < 0 for value in _list_known(seconds))
        if wrong or not math.isclose(found, whole, rel_tol=_RELATIVE_TOLERANCE, abs_tol=1e-6):
            raise PlatformError(f"the times of {name} add up to {found} s of {whole} s; this is a bug in tony")


# --- reports of user programs -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Reports:
    """Reports of one task attempt; or of all attempts of a task in a session, for tasks in lockstep with it.

    Attributes:
        silent: the task reports steps elsewhere, but made none here.
        stalls: intervals without a step for far longer than usual.
        repeating: interval at the end in which the same step was reported repeatedly.
    """

    progress: Progress | None = None
    saved: list[CheckpointRecord] = field(default_factory=list)
    silent: bool = False
    stalls: Sequence[tuple[float, float]] = ()
    repeating: Sequence[tuple[float, float]] = ()


class AttemptFacts:
    """Facts of each task attempt; for one without reports, from another task of its gang.

    Args:
        marks: progress and checkpoints reported by user programs, if any.

    Attributes:
        steps: True if any program reported steps.
        saves: True if any program reported checkpoints.
        unknown: buckets for which there are no reports.
        unlisted: task -> seconds spent on checkpoints whose individual times were not kept.
    """

    def __init__(self, line: Timeline, marks: ProgressRecords | None = None) -> None:
        progress, saved = (marks.progress(), marks.checkpoints()) if marks else ((), ())
        self._line = line
        self._reports_by_attempt: dict[tuple[str, int, int], _Reports] = {}
        #: (role or "", session) -> progress and checkpoints of the first task of that group that reported any.
        self._steps: dict[tuple[str, int], Progress] = {}
        self._saves: dict[tuple[str, int], list[CheckpointRecord]] = {}
        self._independent_roles = {
            name for name, shape in line.roles.items() if shape.kind in (RoleKind.SIDECAR, RoleKind.SETUP)
        }
        self.unlisted: dict[str, float] = {}
        for each in progress:
            self.unlisted[each.task] = self.unlisted.get(each.task, 0.0) + each.unlisted
            if each.first_at >= 0:
                self._find_own_reports(each.task, each.session, each.try_).progress = each
                for group in self._groups(each.task, each.session):
                    self._steps.setdefault(group, each)
        self._reporting_tasks = {each.task for each in progress if each.first_at >= 0}
        #: Groups in which a reporting task ran, whether it reported anything there or not.
        self._reporting_groups = {
            group
            for span in (line.spans if self._reporting_tasks else ())
            if span.what is TaskPhase.RUNNING and span.task in self._reporting_tasks
            for group in self._groups(span.task, span.session)
        }
        for one in sorted(saved, key=lambda one: one.since):
            self._find_own_reports(one.task, one.session, one.try_).saved.append(one)
            for group in self._groups(one.task, one.session):
                others = self._saves.setdefault(group, [])
                if not others or others[0].task == one.task:
                    others.append(one)
        self.steps = bool(self._steps)
        self.saves = bool(self._saves) or any(self.unlisted.values())
        self._known_until = marks.known_until if marks else None
        of_steps = () if self.steps else tuple(bucket.value for bucket in OF_STEPS)
        self.unknown = frozenset((*of_steps, *(() if self.saves else (Bucket.CHECKPOINT.value,))))

    def _find_own_reports(self, task: str, session: int, try_: int) -> _Reports:
        return self._reports_by_attempt.setdefault((task, session, try_), _Reports())

    def _groups(self, task: str, session: int) -> Sequence[tuple[str, int]]:
        """Return the groups in lockstep with a task: its role first, then all computing tasks."""
        role = parse_role(task)
        return ((role, session),) if role in self._independent_roles else ((role, session), ("", session))

    def pieces(self, spans: Iterable[Span]) -> Iterator[Piece]:
        """Split a task's spans into buckets, in order; phases in which it was not due are left out."""
        for span in spans:
            if span.what is TaskPhase.NO_CONTAINER:
                continue
            if span.what is TaskPhase.RUNNING:
                if self._line.roles[parse_role(span.task)].kind is RoleKind.SETUP:
                    yield span.since, span.until, Bucket.SET_UP
                else:
                    yield from _split_running(span, self._find_reports(span))
            elif span.again:
                yield span.since, span.until, Bucket.RESTART
            elif span.what is TaskPhase.WAITING:
                yield from _split_waiting(span, self._line.queued)
            else:
                yield span.since, span.until, _BUCKET_OF_PHASE[span.what]

    def _find_reports(self, span: Span) -> _Reports:
        """Return what is known of the user program that runs in a span."""
        own = self._reports_by_attempt.get((span.task, span.session, span.try_)) or _Reports()
        progress, saved = own.progress, own.saved
        silent = progress is None and span.task in self._reporting_tasks
        groups = self._groups(span.task, span.session)
        for group in groups:
            progress = progress or self._steps.get(group)
            saved = saved or self._saves.get(group, [])
        silent = silent or (progress is None and not self._reporting_groups.isdisjoint(groups))
        stalls = progress.stalls if progress else ()
        if progress and is_stalled(progress, self._reports_end(span)):
            stalls = (*stalls, (progress.at, span.until))
        repeating: Sequence[tuple[float, float]] = ()
        if progress and is_repeating(progress, self._reports_end(span)):
            repeating = ((progress.advanced_at, span.until),)
        return _Reports(progress, saved, silent, stalls, repeating)

    def _reports_end(self, span: Span) -> float:
        """Return the time up to which reports are complete: metrics of a running job lag behind its log."""
        return span.until if self._known_until is None else min(span.until, self._known_until)


# --- one task ---------------------------------------------------------------------------------------------------------


def _build_task_ledger(name: str, spans: Sequence[Span], facts: AttemptFacts) -> TaskLedger:
    # Fast for ten thousand tasks: keyed by bucket name, with only the buckets that occur.
    seconds: dict[str, list[float]] = {}
    held: dict[str, list[float]] = {}
    for span in spans:
        for since, until, which in facts.pieces((span,)):
            bucket = which.value
            seconds.setdefault(bucket, []).append(until - since)
            if span.held:
                held.setdefault(bucket, []).append(until - since)
    if unlisted := facts.unlisted.get(name, 0.0):
        _move_to_checkpoint(seconds, unlisted)
        _move_to_checkpoint(held, unlisted)
    return TaskLedger(
        task=name,
        role=parse_role(name),
        seconds=_sum_buckets(seconds, facts.unknown),
        held=_sum_buckets(held, facts.unknown),
        whole=math.fsum(span.seconds for span in spans if span.what is not TaskPhase.NO_CONTAINER),
    )


def _sum_buckets(seconds: Mapping[str, Sequence[float]], unknown: frozenset[str]) -> dict[str, float | None]:
    return {
        bucket: None if bucket in unknown else math.fsum(seconds[bucket]) if bucket in seconds else 0.0
        for bucket in _BUCKETS
    }


def _move_to_checkpoint(seconds: dict[str, list[float]], amount: float) -> None:
    """Move up to `amount` seconds from the program's other time to `checkpoint`."""
    for bucket in (Bucket.PRODUCTIVE.value, Bucket.UNKNOWN.value):
        spent = math.fsum(seconds.get(bucket, ()))
        taken = min(amount, spent)
        if taken > 0:
            seconds[bucket] = [spent - taken]
            seconds.setdefault(Bucket.CHECKPOINT.value, []).append(taken)
            amount -= taken


_BUCKET_OF_PHASE: Mapping[TaskPhase, Bucket] = {
    TaskPhase.SET_UP: Bucket.SET_UP,
    TaskPhase.RENDEZVOUS: Bucket.RENDEZVOUS,
    TaskPhase.STOPPING: Bucket.IDLE,
    TaskPhase.IDLE: Bucket.IDLE,
}


def _split_waiting(span: Span, queued: Sequence[tuple[float, float]]) -> Iterator[Piece]:
    """Split a waiting span into time in the queue and time for allocation."""
    at = span.since
    for since, until in queued:
        since, until = max(since, at), min(until, span.until)
        if until > since:
            if since > at:
                yield at, since, Bucket.ALLOCATE
            yield since, until, Bucket.QUEUE
            at = until
    if span.until > at:
        yield at, span.until, Bucket.ALLOCATE


def _split_running(span: Span, words: _Reports) -> Iterator[Piece]:
    """Split a running span: checkpoints first, then before the first step, stalled, recomputed steps, and the rest."""
    steps = words.progress
    after = Bucket.PRODUCTIVE if steps or words.silent else Bucket.UNKNOWN
    warm = regained = span.until if words.silent else span.since
    if steps and not words.silent:
        warm = min(max(steps.first_at, span.since), span.until)
        regained = warm
        if steps.behind:
            regained = span.until if steps.regained is None else min(max(steps.regained, warm), span.until)
    layers: list[Iterable[Piece]] = [
        ((saved.since, saved.until, Bucket.CHECKPOINT) for saved in words.saved),
        ((span.since, warm, Bucket.WARM_UP),),
        ((since, until, Bucket.STALLED) for since, until in words.stalls),
        ((since, until, Bucket.UNKNOWN) for since, until in words.repeating),
        ((warm, regained, Bucket.REDONE),),
    ]
    pieces: list[Piece] = [(span.since, span.until, after)]
    for layer in reversed(layers):
        pieces = list(_overlay(pieces, layer))
    yield from pieces


def _overlay(pieces: Iterable[Piece], layer: Iterable[Piece]) -> Iterator[Piece]:
    """Overlay gapless `pieces` with the pieces of `layer`; parts of the layer outside of them are dropped."""
    upper = iter(layer)
    top = next(upper, None)
    for since, until, bucket in pieces:
        at = since
        while top is not None and top[0] < until:
            left, right = max(top[0], at), min(top[1], until)
            if right > left:
                if left > at:
                    yield at, left, bucket
                yield left, right, top[2]
                at = right
            if top[1] > until:
                break
            top = next(upper, None)
        if until > at:
            yield at, until, bucket


# --- sums -------------------------------------------------------------------------------------------------------------


class _Sums:
    """Allocated resources by bucket, in hours."""

    def __init__(self) -> None:
        self.gpus: dict[str, float | None] = dict.fromkeys(_BUCKETS)
        self.memory: dict[str, float | None] = dict(self.gpus)
        self.cores: dict[str, float | None] = dict(self.gpus)

    def add(self, task: TaskLedger, shape: TaskResources) -> None:
        """Add one task."""
        for bucket, seconds in task.held.items():
            if seconds is not None:
                self.gpus[bucket] = (self.gpus[bucket] or 0.0) + seconds * shape.gpus / HOUR
                self.memory[bucket] = (self.memory[bucket] or 0.0) + seconds * shape.memory / GIB / HOUR
                self.cores[bucket] = (self.cores[bucket] or 0.0) + seconds * shape.vcores / HOUR


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) if known else None


def _list_known(values: Mapping[str, float | None]) -> list[float]:
    return [value for value in values.values() if value is not None]
