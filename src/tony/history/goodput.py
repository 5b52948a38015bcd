"""Where a job's time went: each second of each task falls into exactly one bucket. Pure.

What a task does is known from the event log (`timeline.py`). What its program does meanwhile is known from what that
tells of itself: `tony.progress` and `tony.checkpoint`. Where only one task of a gang tells something, such as rank 0,
that holds for the others of its session, too: they go in step. A try of a task that tells of steps at other times, and
of none here, made none: it never came further than its warm-up. Only time in which steps were made is productive:
where a program that reports them reports none for far longer than usual, it is stalled; what programs do of which no
step is reported is not known, and not guessed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum

from tony.dataclass import dataclass, field
from tony.errors import PlatformError
from tony.history.progress_records import CheckpointRecord, ProgressRecords
from tony.history.timeline import Span, TaskPhase, TaskResources, Timeline
from tony.model.job_spec import GIB
from tony.model.progress import Progress, is_repeating, is_stalled
from tony.model.states import RoleKind

HOUR = 3600.0
#: Share of the whole by which the sum of the buckets may differ from it: numbers are rounded on the way.
_ROUNDING = 1e-9


class Bucket(Enum):
    """What a second went into."""

    QUEUE = "queue"  #: the scheduler had no room
    ALLOCATE = "allocate"  #: it had, and the container was not there yet
    SET_UP = "set-up"  #: the container was prepared; all that a setup role does
    RENDEZVOUS = "rendezvous"  #: others were not ready yet
    WARM_UP = "warm-up"  #: the program ran and had made no step yet
    PRODUCTIVE = "productive"  #: steps were made
    STALLED = "stalled"  #: none was made for far longer than usual
    UNKNOWN = "unknown"  #: the program ran, and no step is reported
    CHECKPOINT = "checkpoint"  #: something was saved
    REDONE = "redone"  #: steps that had been made before
    RESTART = "restart"  #: from a failure until the program ran again
    IDLE = "idle"  #: the program was over, and its container still held


#: Those that follow from steps, and all that only a program can tell: None where it does not.
OF_STEPS = (Bucket.WARM_UP, Bucket.PRODUCTIVE, Bucket.STALLED, Bucket.REDONE)
TOLD = (*OF_STEPS, Bucket.CHECKPOINT)
_BUCKETS = tuple(bucket.value for bucket in Bucket)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLedger:
    """One task's seconds.

    Attributes:
        seconds: bucket -> seconds; None: not known, and part of `unknown` or of the buckets of steps.
        held: the same, while it had a container.
        whole: their sum: its time from the job's acceptance to its own end, without the time in which it was not its
            turn.
    """

    task: str
    role: str
    seconds: Mapping[str, float | None]
    held: Mapping[str, float | None]
    whole: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodputLedger:
    """A job's seconds.

    Attributes:
        until: seconds since it was accepted, up to which this counts.
        seconds: bucket -> task-seconds, over all tasks; None: not known of any task.
        gpu_hours, gb_hours, core_hours: the same of what its containers held; GiB of memory.
        whole, whole_gpu_hours, whole_gb_hours, whole_core_hours: their sums.
        goodput: the productive share of the time in which containers were held, without that which is not known; None
            where no steps were reported.
        told: whether programs have told of their steps.
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
    told: bool


#: A span of time and what it went into.
Piece = tuple[float, float, Bucket]


def ledger(line: Timeline, marks: ProgressRecords | None = None) -> GoodputLedger:
    """Sums up a timeline.

    Args:
        marks: what its programs told; None if nothing of it is known.

    Raises:
        PlatformError: the buckets do not add up: a bug of ours.
    """
    told = AttemptFacts(line, marks)
    tasks = tuple(_of_task(name, spans, line, told) for name, spans in line.by_task())
    held = _Sums()
    for task in tasks:
        held.add(task, line.roles[task.role])
    seconds = {bucket: _sum(task.seconds[bucket] for task in tasks) for bucket in _BUCKETS}
    while_held = {bucket: _sum(task.held[bucket] for task in tasks) for bucket in _BUCKETS}
    whole, whole_held = math.fsum(task.whole for task in tasks), math.fsum(_known(while_held))
    judged = whole_held - (while_held[Bucket.UNKNOWN.value] or 0.0)
    made = GoodputLedger(
        until=line.until,
        tasks=tasks,
        seconds=seconds,
        gpu_hours=held.gpus,
        gb_hours=held.memory,
        core_hours=held.cores,
        whole=whole,
        whole_gpu_hours=math.fsum(_known(held.gpus)),
        whole_gb_hours=math.fsum(_known(held.memory)),
        whole_core_hours=math.fsum(_known(held.cores)),
        goodput=(while_held[Bucket.PRODUCTIVE.value] or 0.0) / judged if told.steps and judged > 0 else None,
        told=told.steps,
    )
    check(made)
    return made


def check(made: GoodputLedger) -> None:
    """Holds the buckets to their sum.

    Raises:
        PlatformError: they do not add up.
    """
    for name, seconds, whole in [(task.task, task.seconds, task.whole) for task in made.tasks] + [
        ("the job", made.seconds, made.whole)
    ]:
        found = math.fsum(_known(seconds))
        wrong = any(value < 0 for value in _known(seconds))
        if wrong or not math.isclose(found, whole, rel_tol=_ROUNDING, abs_tol=1e-6):
            raise PlatformError(f"the times of {name} add up to {found} s of {whole} s: this is a bug of tony's")


def pieces(spans: Sequence[Span], line: Timeline, marks: ProgressRecords | None = None) -> list[Piece]:
    """One task's time in pieces, in order, each with its bucket; what is not its time is left out."""
    return list(AttemptFacts(line, marks).pieces(spans))


# --- what programs told -----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Words:
    """What one try of a task told; or all of its tries in a session, for those who go in step with it.

    Attributes:
        silent: it would have told of steps, and did not make any.
        stalls: from when to when none was made for far longer than usual.
        repeating: from when to when the same step was reported again and again, in the end.
    """

    progress: Progress | None = None
    saved: list[CheckpointRecord] = field(default_factory=list)
    silent: bool = False
    stalls: Sequence[tuple[float, float]] = ()
    repeating: Sequence[tuple[float, float]] = ()


class AttemptFacts:
    """What is known of each try; of one that said nothing, by another of its gang.

    Args:
        marks: what programs told; None if nothing of it is known.

    Attributes:
        steps: somebody told of steps; saves: of checkpoints; unknown: the buckets that nobody told of.
        unlisted: task -> seconds for checkpoints whose own times were not kept.
    """

    def __init__(self, line: Timeline, marks: ProgressRecords | None = None) -> None:
        progress, saved = (marks.progress(), marks.checkpoints()) if marks else ((), ())
        self._line = line
        self._own: dict[tuple[str, int, int], _Words] = {}
        #: (role or "", session) -> the first task of it that told of steps, and of checkpoints.
        self._steps: dict[tuple[str, int], Progress] = {}
        self._saves: dict[tuple[str, int], list[CheckpointRecord]] = {}
        self._alone = {name for name, shape in line.roles.items() if shape.kind in (RoleKind.SIDECAR, RoleKind.SETUP)}
        self.unlisted: dict[str, float] = {}
        for each in progress:
            self.unlisted[each.task] = self.unlisted.get(each.task, 0.0) + each.unlisted
            if each.first_at >= 0:
                self._words(each.task, each.session, each.try_).progress = each
                for group in self._groups(each.task, each.session):
                    self._steps.setdefault(group, each)
        self._tellers = {each.task for each in progress if each.first_at >= 0}
        #: Where one of them ran, whether it told something there or not.
        self._heeded = {
            group
            for span in (line.spans if self._tellers else ())
            if span.what is TaskPhase.RUNNING and span.task in self._tellers
            for group in self._groups(span.task, span.session)
        }
        for one in sorted(saved, key=lambda one: one.since):
            self._words(one.task, one.session, one.try_).saved.append(one)
            for group in self._groups(one.task, one.session):
                others = self._saves.setdefault(group, [])
                if not others or others[0].task == one.task:
                    others.append(one)
        self.steps = bool(self._steps)
        self.saves = bool(self._saves) or any(self.unlisted.values())
        self._known_until = marks.known_until if marks else None
        of_steps = () if self.steps else tuple(bucket.value for bucket in OF_STEPS)
        self.unknown = frozenset((*of_steps, *(() if self.saves else (Bucket.CHECKPOINT.value,))))

    def _words(self, task: str, session: int, try_: int) -> _Words:
        return self._own.setdefault((task, session, try_), _Words())

    def _groups(self, task: str, session: int) -> Sequence[tuple[str, int]]:
        """In step with whom a task goes: its role first, then everybody who computes."""
        role = _role(task)
        return ((role, session),) if role in self._alone else ((role, session), ("", session))

    def pieces(self, spans: Iterable[Span]) -> Iterator[Piece]:
        """A task's spans in pieces, in order, each with its bucket; what is not its time is left out."""
        return _pieces(spans, self._line, self)

    def of(self, span: Span) -> _Words:
        """What is known of the program that runs in a span."""
        own = self._own.get((span.task, span.session, span.try_)) or _Words()
        progress, saved = own.progress, own.saved
        silent = progress is None and span.task in self._tellers
        groups = self._groups(span.task, span.session)
        for group in groups:
            progress = progress or self._steps.get(group)
            saved = saved or self._saves.get(group, [])
        silent = silent or (progress is None and not self._heeded.isdisjoint(groups))
        stalls = progress.stalls if progress else ()
        if progress and is_stalled(progress, self._reports_end(span)):
            stalls = (*stalls, (progress.at, span.until))
        repeating: Sequence[tuple[float, float]] = ()
        if progress and is_repeating(progress, self._reports_end(span)):
            repeating = ((progress.advanced_at, span.until),)
        return _Words(progress, saved, silent, stalls, repeating)

    def _reports_end(self, span: Span) -> float:
        """Return until when reports of a program are known: the file of a job that runs lags behind its log."""
        return span.until if self._known_until is None else min(span.until, self._known_until)


# --- one task ---------------------------------------------------------------------------------------------------------


def _of_task(name: str, spans: Sequence[Span], line: Timeline, told: AttemptFacts) -> TaskLedger:
    # Of ten thousand tasks: by name, and only what there is anything of.
    seconds: dict[str, list[float]] = {}
    held: dict[str, list[float]] = {}
    for span in spans:
        for since, until, which in _pieces((span,), line, told):
            bucket = which.value
            seconds.setdefault(bucket, []).append(until - since)
            if span.held:
                held.setdefault(bucket, []).append(until - since)
    if unlisted := told.unlisted.get(name, 0.0):
        _move(seconds, unlisted)
        _move(held, unlisted)
    return TaskLedger(
        task=name,
        role=_role(name),
        seconds=_summed(seconds, told.unknown),
        held=_summed(held, told.unknown),
        whole=math.fsum(span.seconds for span in spans if span.what is not TaskPhase.GONE),
    )


def _summed(seconds: Mapping[str, Sequence[float]], unknown: frozenset[str]) -> dict[str, float | None]:
    return {
        bucket: None if bucket in unknown else math.fsum(seconds[bucket]) if bucket in seconds else 0.0
        for bucket in _BUCKETS
    }


def _move(seconds: dict[str, list[float]], amount: float) -> None:
    """From what the program did otherwise to checkpoint, as far as there is any."""
    for bucket in (Bucket.PRODUCTIVE.value, Bucket.UNKNOWN.value):
        spent = math.fsum(seconds.get(bucket, ()))
        taken = min(amount, spent)
        if taken > 0:
            seconds[bucket] = [spent - taken]
            seconds.setdefault(Bucket.CHECKPOINT.value, []).append(taken)
            amount -= taken


def _pieces(spans: Iterable[Span], line: Timeline, told: AttemptFacts) -> Iterator[Piece]:
    for span in spans:
        if span.what is TaskPhase.GONE:
            continue
        if span.what is TaskPhase.RUNNING:
            setup = line.roles[_role(span.task)].kind is RoleKind.SETUP
            if setup:
                yield span.since, span.until, Bucket.SET_UP
            else:
                yield from _running(span, told.of(span))
        elif span.again:
            yield span.since, span.until, Bucket.RESTART
        elif span.what is TaskPhase.WAITING:
            yield from _waiting(span, line.queued)
        else:
            yield span.since, span.until, _PLAIN[span.what]


_PLAIN: Mapping[TaskPhase, Bucket] = {
    TaskPhase.SET_UP: Bucket.SET_UP,
    TaskPhase.RENDEZVOUS: Bucket.RENDEZVOUS,
    TaskPhase.STOPPING: Bucket.IDLE,
    TaskPhase.IDLE: Bucket.IDLE,
}


def _waiting(span: Span, queued: Sequence[tuple[float, float]]) -> Iterator[Piece]:
    """The part in which there was no room, and the other one."""
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


def _running(span: Span, words: _Words) -> Iterator[Piece]:
    """A program's time: checkpoints first; what is left before the first step, stalled, before the highest one, after
    it."""
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
        pieces = list(_lay_over(pieces, layer))
    yield from pieces


def _lay_over(pieces: Iterable[Piece], layer: Iterable[Piece]) -> Iterator[Piece]:
    """Lay pieces over others, which follow each other without a gap; what lies beyond these is left out."""
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
    """What containers held, in hours."""

    def __init__(self) -> None:
        self.gpus: dict[str, float | None] = dict.fromkeys(_BUCKETS)
        self.memory: dict[str, float | None] = dict(self.gpus)
        self.cores: dict[str, float | None] = dict(self.gpus)

    def add(self, task: TaskLedger, shape: TaskResources) -> None:
        """One task more."""
        for bucket, seconds in task.held.items():
            if seconds is not None:
                self.gpus[bucket] = (self.gpus[bucket] or 0.0) + seconds * shape.gpus / HOUR
                self.memory[bucket] = (self.memory[bucket] or 0.0) + seconds * shape.memory / GIB / HOUR
                self.cores[bucket] = (self.cores[bucket] or 0.0) + seconds * shape.vcores / HOUR


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) if known else None


def _known(values: Mapping[str, float | None]) -> list[float]:
    return [value for value in values.values() if value is not None]


def _role(task: str) -> str:
    return task.rpartition(":")[0]
