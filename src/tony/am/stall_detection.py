"""Detects stalled programs of a session from reported steps, lines of output and use of processors. Pure.

A session has stalled when none of its programs has given a sign of progress for much longer than it usually takes:

- Where programs report steps, all of those that do must be late: by five times the median pause, two to four times
  the longest pause that the program has survived, and a floor. The floor is a tenth of `stall_timeout` if all programs
  are idle and print nothing, `stall_timeout` itself while too few pauses are known, and twice `stall_timeout` if
  programs are busy: an evaluation computes without a step, but a collective operation on GPUs that waits forever is
  busy, too.
- Where none does, or all have made their last one, all programs must be idle and silent: for ten times the median
  pause between lines, three times the longest one, and `stall_timeout`. At least one must have printed regularly, or
  the stack traces must show that tasks wait for others.

A single program has stalled when it is late by its own steps while others make theirs.

Where too little is known of the usual pauses, several idle and silent programs may have stalled much earlier: after
`EARLY_SHARE` of `stall_timeout`. Stack traces, taken twice, must prove it then (`find_early_stall`).

A program that has not made a first step, or has made all of its steps, is never late. Where metrics are out of date,
nothing is known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tony.am.medians import find_median
from tony.model.ids import TaskId

#: Factors of the usual and of the longest pause, of steps and of lines.
STEP_MEDIANS = 5.0
STEP_LONGEST = 2.0
MAX_STEP_LONGEST = 4.0
LINE_MEDIANS = 10.0
LINE_LONGEST = 3.0
EARLY_LINE_LONGEST = 1.5
#: Of `stall_timeout`: the floor where steps are late and all is idle; the floor where programs are busy; the time for
#: which a program must have printed regularly.
IDLE_FLOOR_SHARE = 0.1
BUSY_FLOOR_SHARE = 2.0
PRINTED_SHARE = 0.2
#: Of `stall_timeout`: the time for which programs are idle and silent before their stack traces may prove a stall, and
#: the time between two of these.
EARLY_SHARE = 0.05
PROOF_SHARE = 0.1
#: Cores, share of a device and bytes per second from which a program counts as busy.
BUSY_CORES = 0.05
BUSY_DEVICE_SHARE = 0.05
BUSY_BYTES_PER_SECOND = 256 << 10
_BUSY_SERIES: Mapping[str, float] = {
    "cpu": BUSY_CORES,
    "disk-read": BUSY_BYTES_PER_SECOND,
    "disk-write": BUSY_BYTES_PER_SECOND,
    "net-in": BUSY_BYTES_PER_SECOND,
    "net-out": BUSY_BYTES_PER_SECOND,
}
#: Minimum number of pauses between steps for a meaningful median.
FEWEST_STEP_PAUSES = 5
#: Pauses between lines kept for each task, and the minimum for a meaningful median.
_MAX_PAUSES = 31
_FEWEST_PAUSES = 8
#: Seconds by which the time of a line seems to vary, because its age is rounded and takes time to travel.
_SAME_LINE_SECONDS = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPauses:
    """The steps of a task attempt. Times are seconds since the job was accepted.

    Attributes:
        step, at: the last one that it reported, and when.
        median, longest: of the pauses between its reports; the median is None while it is not known.
        is_complete: it has made all of its steps.
    """

    step: float
    at: float
    median: float | None
    longest: float
    is_complete: bool = False


@dataclass(slots=True)
class LinePauses:
    """The lines of a task attempt, as far as heartbeats tell of them.

    Attributes:
        first_at, at: when the first and the last known line were printed; None before the first.
        pauses: between known lines, the last ones.
        longest: of all pauses.
    """

    first_at: float | None = None
    at: float | None = None
    pauses: deque[float] = field(default_factory=lambda: deque(maxlen=_MAX_PAUSES))
    longest: float = 0.0

    def note_line(self, at: float) -> None:
        """Take the time of the newest line; that of a known one changes nothing."""
        if self.at is None or self.first_at is None:
            self.first_at = self.at = at
        elif at - self.at > _SAME_LINE_SECONDS:
            self.pauses.append(at - self.at)
            self.longest = max(self.longest, at - self.at)
            self.at = at

    def is_regular(self, seconds: float) -> bool:
        """Return True if it has printed often enough, for at least some seconds."""
        if self.at is None or self.first_at is None:
            return False
        return len(self.pauses) >= _FEWEST_PAUSES and self.at - self.first_at >= seconds

    def find_limit(self) -> float:
        """Return for how many seconds it may be silent."""
        median = find_median(self.pauses) if self.pauses else 0.0
        return max(LINE_MEDIANS * median, LINE_LONGEST * self.longest)


class ActivityRecord:
    """When each task was last measured, and last found busy, in seconds since the job was accepted."""

    def __init__(self) -> None:
        self._measured: dict[TaskId, float] = {}
        self._busy: dict[TaskId, float] = {}

    def note_sample(self, task: TaskId, at: float, values: Mapping[str, float]) -> None:
        """Take a sample of a task; one without the use of processors, such as of steps alone, does not count."""
        if "cpu" not in values:
            return
        self._measured[task] = at
        if any(_is_busy(name, value) for name, value in values.items()):
            self._busy[task] = at

    def find_measured(self, task: TaskId) -> float | None:
        """Return when a task was last measured; None if it never was."""
        return self._measured.get(task)

    def find_busy(self, task: TaskId) -> float | None:
        """Return when a task was last found busy; None if it never was."""
        return self._busy.get(task)


def _is_busy(name: str, value: float) -> bool:
    if name.endswith(".util"):
        return value > BUSY_DEVICE_SHARE
    limit = _BUSY_SERIES.get(name)
    return limit is not None and value > limit


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSigns:
    """What is known of a running task. Times are seconds since the job was accepted.

    Attributes:
        started_at: when its program was started.
        busy_at: when it was last found busy; None if it never was.
        steps: None if it has reported none.
        lines: None if nothing is known of its output.
    """

    task: TaskId
    started_at: float
    busy_at: float | None
    steps: StepPauses | None = None
    lines: LinePauses | None = None

    @property
    def idle_since(self) -> float:
        """Since when the program has been idle."""
        return self.started_at if self.busy_at is None else self.busy_at

    @property
    def silent_since(self) -> float:
        """Since when the program has printed nothing."""
        line = self.lines.at if self.lines else None
        return self.started_at if line is None else line


@dataclass(frozen=True, slots=True)
class Stall:
    """A stalled session, or a single stalled task.

    Attributes:
        since: since when the sign is missing.
        what: the sign: `step` or `output`.
        task: the only one that has stalled; None if all have.
        needs_proof: it has stalled only if stack traces show that tasks wait for others.
    """

    since: float
    what: str
    task: TaskId | None = None
    needs_proof: bool = False


def find_stall(tasks: Sequence[TaskSigns], now: float, timeout: float) -> Stall | None:
    """Return the stall of a session; None if its programs make progress, or that is not known.

    Args:
        tasks: all running tasks for which the job waits.
        timeout: `stall_timeout` in seconds.
    """
    if not tasks:
        return None
    if any(each.steps for each in tasks):
        return _find_step_stall(tasks, now, timeout)
    return _find_output_stall(tasks, now, timeout)


def _find_step_stall(tasks: Sequence[TaskSigns], now: float, timeout: float) -> Stall | None:
    steps = [each.steps for each in tasks if each.steps and not each.steps.is_complete]
    if not steps:
        return _find_output_stall(tasks, now, timeout, must_prove=True)
    since = max(each.at for each in steps)
    floor = _find_floor(tasks, since, now, timeout)
    if all(now - each.at > _find_step_limit(each, floor, timeout) for each in steps):
        return Stall(since, "step")
    return None


def find_lone_stall(tasks: Sequence[TaskSigns], now: float, timeout: float) -> Stall | None:
    """Return the stall of the task that has waited the longest while others make steps; None if there is none.

    Args:
        tasks: running tasks that make steps independently of each other, or should.
        timeout: `stall_timeout` in seconds.
    """
    known = [(each, each.steps) for each in tasks if each.steps and not each.steps.is_complete]
    late = [
        (steps.at, each.task)
        for each, steps in known
        if now - steps.at > _find_step_limit(steps, _find_floor([each], steps.at, now, timeout), timeout)
    ]
    if not late:
        return None
    since, task = min(late)
    # Tasks that wait for this one have made their last step when it did, and are late soon, too.
    others_continue = max(steps.at for _, steps in known) > 0.5 * (since + now)
    return Stall(since, "step", task) if others_continue else None


def _find_floor(tasks: Sequence[TaskSigns], since: float, now: float, timeout: float) -> float:
    """Return for how many seconds tasks may make no step: longer if they have computed or printed since then."""
    idle_seconds = now - _find_quiet_since(tasks)
    is_idle = idle_seconds >= max(IDLE_FLOOR_SHARE * timeout, 0.5 * (now - since))
    return (IDLE_FLOOR_SHARE if is_idle else BUSY_FLOOR_SHARE) * timeout


def _find_step_limit(steps: StepPauses, floor: float, timeout: float) -> float:
    if steps.median is None:
        return max(floor, timeout, STEP_LONGEST * steps.longest)
    # The more pauses vary, the more the longest one so far may be exceeded.
    spread = steps.longest / steps.median if steps.median > 0 else MAX_STEP_LONGEST
    factor = min(max(STEP_LONGEST, spread), MAX_STEP_LONGEST)
    return max(floor, STEP_MEDIANS * steps.median, factor * steps.longest)


def _find_output_stall(
    tasks: Sequence[TaskSigns], now: float, timeout: float, *, must_prove: bool = False
) -> Stall | None:
    lines = [each.lines for each in tasks if each.lines]
    is_regular = any(each.is_regular(PRINTED_SHARE * timeout) for each in lines) and not must_prove
    if not is_regular and len(tasks) < 2:
        return None
    if now - _find_quiet_since(tasks) > max([timeout, *(each.find_limit() for each in lines)]):
        return Stall(max(each.silent_since for each in tasks), "output", needs_proof=not is_regular)
    return None


def find_early_stall(tasks: Sequence[TaskSigns], now: float, idle_seconds: float) -> Stall | None:
    """Return what would be a stall of a session if the stack traces prove it; None if its programs make progress.

    Where the pauses between steps are known, `find_stall` is early enough.

    Args:
        idle_seconds: for how long all programs must have been idle and silent.
    """
    steps = [each.steps for each in tasks if each.steps and not each.steps.is_complete]
    if len(tasks) < 2 or any(each.median is not None for each in steps):
        return None
    since = max([_find_quiet_since(tasks), *(each.at for each in steps)])
    usual = [STEP_LONGEST * each.longest for each in steps]
    usual += [EARLY_LINE_LONGEST * each.lines.longest for each in tasks if each.lines]
    if now - since <= max([idle_seconds, *usual]):
        return None
    if steps:
        return Stall(max(each.at for each in steps), "step", needs_proof=True)
    return Stall(max(each.silent_since for each in tasks), "output", needs_proof=True)


def _find_quiet_since(tasks: Sequence[TaskSigns]) -> float:
    """Return since when all programs have been idle and printed nothing."""
    return max(max(each.idle_since, each.silent_since) for each in tasks)
