"""Finds the tasks that are slow compared with the others of their role, and the measurements that show why. Pure.

Time is cut into windows. In each the tasks of a role are compared in one of two ways:

- By the median of the seconds that each task took for a step: for at least `SLOW_RATIO` times the median of the others,
  and more where steps vary much. An evaluation or a checkpoint is one long step and moves no median.
- Where all tasks make the same steps, as in synchronous training, their times are equal, since all wait for the slowest
  task in each step. There a task is slow if measurements show it: its CPU limit, its hypervisor, other processes, disks
  or a low GPU clock hold it up and not the others; or it computes while the others are idle.

A task counts as slow after `WINDOWS_UNTIL_SLOW` windows in a row for the same reason, and no longer after
`WINDOWS_UNTIL_NORMAL`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tony.am.medians import find_median
from tony.model.ids import TaskId
from tony.units import Unit, format_amount, format_duration, format_number

#: Ratio of a task's step time to that of the others from which it is slow, and up to which it stays so.
SLOW_RATIO = 1.5
NORMAL_RATIO = 1.25
#: Windows in a row.
WINDOWS_UNTIL_SLOW = 5
WINDOWS_UNTIL_NORMAL = 2
#: Step times of a window by which a task is compared.
FEWEST_STEPS = 3
#: Standard errors of a median by which a slow task must differ; a median's is 1.25 times that of a mean.
_STANDARD_ERRORS = 3.0 * 1.25
#: Interquartile range of a normal distribution in standard deviations.
_QUARTILES = 1.349
#: Ratio of step times up to which tasks make the same steps, and steps by which they may differ.
_SAME_RATIO = 1.25
_SAME_STEPS = 2.0
#: Share of a role's tasks that may delay the others: more of them are the rule, not the exception.
_MAX_SHARE = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWindow:
    """What is known of a task in one window.

    Attributes:
        step: the last one that it reported.
        step_seconds: how long its last steps took.
        usage: series -> mean; for GPUs `util` and `clock`, the lowest of all its GPUs.
    """

    task: TaskId
    step: float
    step_seconds: Sequence[float]
    usage: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Sign:
    """A measurement that shows why a task is slow.

    Attributes:
        least, more: it is at least that large, and larger than that of the others by so much.
        factor: and by this factor.
        text: for users; `{}` is the value.
    """

    series: str
    unit: Unit
    least: float
    more: float
    text: str
    factor: float = 1.0


_SIGNS = (
    _Sign("throttled", Unit.SHARE, 0.25, 0.2, "its CPU limit throttles it {} of the time"),
    _Sign("steal", Unit.SHARE, 0.2, 0.15, "the hypervisor takes {} of its host's CPU time"),
    _Sign("cpu-wait", Unit.SHARE, 0.3, 0.2, "it waits for a processor {} of the time"),
    _Sign("iowait", Unit.SHARE, 0.3, 0.2, "its host waits for disks {} of the time"),
    _Sign("major-faults", Unit.PER_SECOND, 50.0, 50.0, "it reads memory back from disk: {} page faults", 5.0),
)
#: Share of the others' GPU clock up to which a busy GPU is slow.
_SLOW_CLOCK = 0.85
_BUSY_GPU = 0.5
#: Cores from which a task computes, and its ratio to the others, which are idle then.
_BUSY_CORES = 0.5
_BUSY_FACTOR = 3.0


@dataclass(frozen=True, slots=True)
class Slowness:
    """Why a task is slow in one window.

    Attributes:
        sign: how that is known: `step`, or the series that shows it.
        text: one sentence.
    """

    sign: str
    text: str


class _Values:
    """The values of all tasks of a role in order, of which each may be left out."""

    def __init__(self, values: Collection[float]) -> None:
        self._sorted = sorted(values)

    def find_median_without(self, value: float) -> float | None:
        """Return the median of all values but one; None if there is no other."""
        count = len(self._sorted) - 1
        if count < 1:
            return None
        place = bisect_left(self._sorted, value)
        low, high = (count - 1) // 2, count // 2
        return 0.5 * (self._sorted[low + (low >= place)] + self._sorted[high + (high >= place)])


class RoleComparison:
    """The tasks of one role in one window."""

    def __init__(self, tasks: Sequence[TaskWindow]) -> None:
        self._tasks = [each for each in tasks if len(each.step_seconds) >= FEWEST_STEPS]
        self._medians = {each.task: find_median(each.step_seconds) for each in self._tasks}
        self._seconds = _Values(self._medians.values())
        names = {name for each in self._tasks for name in each.usage}
        self._usage = {
            name: _Values([each.usage[name] for each in self._tasks if name in each.usage]) for name in names
        }
        self._spread = find_median([_find_spread(each.step_seconds) for each in self._tasks] or [0.0])

    @property
    def tasks(self) -> Sequence[TaskId]:
        """The tasks that are compared."""
        return [each.task for each in self._tasks]

    def find_slow(self, known: Collection[TaskId], lag_seconds: float) -> dict[TaskId, Slowness]:
        """Return the tasks that are slow in this window.

        Args:
            known: tasks that count as slow before.
            lag_seconds: seconds after which a report may arrive.
        """
        if len(self._tasks) < 2:
            return {}
        slow = {each.task: found for each in self._tasks if (found := self._compare_steps(each, known))}
        if slow or not self._makes_same_steps(lag_seconds):
            return slow
        for each in self._tasks:
            signs = self._list_signs(each)
            if signs:
                text = f"the others seem to wait for it in each step: {'; '.join(signs.values())}"
                slow[each.task] = Slowness(next(iter(signs)), text)
        return slow

    def _compare_steps(self, window: TaskWindow, known: Collection[TaskId]) -> Slowness | None:
        seconds = self._medians[window.task]
        median = self._seconds.find_median_without(seconds)
        if not median:
            return None
        # The median of few steps varies as they do.
        noise = math.exp(_STANDARD_ERRORS * self._spread / math.sqrt(len(window.step_seconds)))
        if seconds < median * (NORMAL_RATIO if window.task in known else max(SLOW_RATIO, noise)):
            return None
        signs = [*self._list_signs(window).values()] or ["its CPU, disk and GPU metrics do not show why"]
        return Slowness(
            "step",
            f"{format_duration(seconds)} a step, {format_number(seconds / median)} times the median of the other tasks "
            f"of {window.task.role} ({format_duration(median)}); {'; '.join(signs)}",
        )

    def _makes_same_steps(self, lag_seconds: float) -> bool:
        """Return True if all tasks are at the same step, and take equally long for one."""
        medians, steps = self._medians.values(), [each.step for each in self._tasks]
        least = min(medians)
        if least <= 0 or max(medians) > _SAME_RATIO * least:
            return False
        return max(steps) - min(steps) <= _SAME_STEPS + lag_seconds / least

    def _list_signs(self, window: TaskWindow) -> dict[str, str]:
        """Return series -> how it distinguishes a task from the others and makes it slow."""
        found = {}
        for sign in _SIGNS:
            if window.usage.get(sign.series, 0.0) < sign.least:
                continue
            value, usual = self._find_usage(window, sign.series)
            if value is not None and value >= max(usual + sign.more, usual * sign.factor):
                found[sign.series] = _describe(sign.text, value, usual, sign.unit)
        util = window.usage.get("util")
        if util is not None and util >= _BUSY_GPU:
            clock, usual_clock = self._find_usage(window, "clock")
            if clock is not None and clock <= _SLOW_CLOCK * usual_clock:
                found["clock"] = _describe("its GPU runs at {}", clock, usual_clock, Unit.HERTZ)
        if "throttled" in found:
            found.pop("cpu-wait", None)  # a throttled task waits for a processor, too
        if not found and util is None and window.usage.get("cpu", 0.0) >= _BUSY_CORES:
            cpu, usual_cpu = self._find_usage(window, "cpu")
            if cpu is not None and cpu >= _BUSY_FACTOR * usual_cpu:
                found["cpu"] = _describe("it uses {}", cpu, usual_cpu, Unit.CORES)
        return found

    def _find_usage(self, window: TaskWindow, series: str) -> tuple[float | None, float]:
        """Return the value of a task and the median of the others; None if one of them is not known."""
        value = window.usage.get(series)
        usual = None if value is None else self._usage[series].find_median_without(value)
        return (None, 0.0) if usual is None else (value, usual)


@dataclass(slots=True)
class StragglerHistory:
    """The windows of one role so far: in how many of the last ones each task was slow, by which sign, or was not."""

    _slow: dict[TaskId, tuple[str, int]] = field(default_factory=dict)
    _normal: dict[TaskId, int] = field(default_factory=dict)

    def forget(self, task: TaskId) -> None:
        """Drop the windows of a task, which has started again."""
        self._slow.pop(task, None)
        self._normal.pop(task, None)

    def add_window(
        self, tasks: Sequence[TaskWindow], known: Collection[TaskId], lag_seconds: float
    ) -> tuple[dict[TaskId, str], list[TaskId]]:
        """Take a window; return the tasks that count as slow from now on, with the reasons, and those no longer.

        Args:
            known: tasks that count as slow now.
            lag_seconds: seconds after which a report may arrive.
        """
        comparison = RoleComparison(tasks)
        slow = comparison.find_slow(known, lag_seconds)
        ended = []
        for task in comparison.tasks:
            if task in slow:
                self._normal.pop(task, None)
                sign, count = self._slow.get(task, ("", 0))
                self._slow[task] = slow[task].sign, (count if sign == slow[task].sign else 0) + 1
            else:
                self._slow.pop(task, None)
                self._normal[task] = self._normal.get(task, 0) + 1
                if self._normal[task] >= WINDOWS_UNTIL_NORMAL and task in known:
                    ended.append(task)
        lasting = {task for task in slow if self._slow[task][1] >= WINDOWS_UNTIL_SLOW}
        by_signs = [task for task in lasting if slow[task].sign != "step"]
        if len(by_signs) > max(1.0, _MAX_SHARE * len(comparison.tasks)):
            lasting.difference_update(by_signs)
        return {task: slow[task].text for task in slow if task in lasting and task not in known}, ended


def _find_spread(values: Sequence[float]) -> float:
    """Return the standard deviation of the logarithms of values, estimated from their quartiles."""
    ordered = sorted(values)
    low, high = ordered[len(ordered) // 4], ordered[-1 - len(ordered) // 4]
    return math.log(high / low) / _QUARTILES if low > 0 else 0.0


def _describe(text: str, value: float, usual: float, unit: Unit) -> str:
    return f"{text.format(format_amount(value, unit))} (the others: {format_amount(usual, unit)})"
