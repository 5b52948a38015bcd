"""Curves of metrics for charts: over time or over steps, smoothed, of a task, a role or a whole job."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from tony.history.metrics_reader import Metrics
from tony.model.metric_definitions import MetricGroup, MetricSeries
from tony.units import Unit

T = TypeVar("T")
#: Points of a curve, at most.
MAX_CURVE_POINTS = 300
#: Devices of a task that are averaged.
_MAX_DEVICES = 64
#: Points of a curve of steps for each interval that a rate spans.
_POINTS_PER_RATE = 40
#: Derived from the steps, and from the utilization of each device; not stored.
STEP_RATE = MetricSeries("step-rate", "Step rate", Unit.PER_SECOND, "steps per second", MetricGroup.PROGRESS)
GPU_USE = MetricSeries("gpu-use", "GPU utilization", Unit.SHARE, "mean of the devices", MetricGroup.GPU)
DERIVED = {series.name: series for series in (STEP_RATE, GPU_USE)}
_STEP = "step"


class CurveAxis(StrEnum):
    """What a curve is drawn over."""

    TIME = "time"
    STEP = "step"


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveOwner:
    """Whose metric it is: a task's, a role's, or the whole job's if both are empty.

    Attributes:
        name: the label of a whole job.
    """

    task: str = ""
    role: str = ""
    name: str = ""

    @property
    def label(self) -> str:
        """Return the name of the task, role or job."""
        return self.task or self.role or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A series over time or over steps.

    Attributes:
        label: whose it is.
        every: seconds that a point stands for.
        at: seconds since the job was accepted, or steps.
        middle: the median of several tasks, or the mean of one.
        least, most: the range of the tasks' means, or of one task's values.
        least_of, most_of: the tasks with these means; empty for one task.
        tasks: the largest number of tasks in one point.
        unsmoothed: `middle` before it was smoothed; empty if it was not.
    """

    label: str
    every: float
    at: tuple[float, ...] = ()
    least: tuple[float, ...] = ()
    middle: tuple[float, ...] = ()
    most: tuple[float, ...] = ()
    least_of: tuple[str, ...] = ()
    most_of: tuple[str, ...] = ()
    tasks: int = 1
    unsmoothed: tuple[float, ...] = ()


def load_curve(
    metrics: Metrics, owner: CurveOwner, series: str, axis: CurveAxis = CurveAxis.TIME, smoothing: float = 0.0
) -> Curve:
    """Return one series as a curve; without points if it was not measured, or if no steps were reported for its axis.

    Args:
        series: a stored one, or one of `DERIVED`.
        smoothing: weight of the values before, from 0 (none) to below 1.
    """
    if series == STEP_RATE.name:
        curve = compute_rate(_read(metrics, owner, _STEP))
    elif series == GPU_USE.name:
        devices = [name for name in metrics.series() if is_gpu_utilization(name)][:_MAX_DEVICES]
        curve = average([_read(metrics, owner, name) for name in devices], owner.label)
    else:
        curve = _read(metrics, owner, series)
    if axis is CurveAxis.STEP:
        steps = _read(metrics, owner, _STEP)
        curve = order_by_step(curve, steps if steps.at else _read(metrics, CurveOwner(), _STEP))
    return smooth(curve, smoothing) if smoothing else curve


def _read(metrics: Metrics, owner: CurveOwner, series: str) -> Curve:
    if owner.task:
        found = metrics.points(owner.task, series, most=MAX_CURVE_POINTS)
        return Curve(
            label=owner.label, every=found.every, at=found.at, least=found.least, middle=found.mean, most=found.most
        )
    role = metrics.read_role_series(owner.role or None, series, most=MAX_CURVE_POINTS)
    return Curve(
        label=owner.label,
        every=role.every,
        at=role.at,
        least=role.least,
        middle=role.median,
        most=role.most,
        least_of=role.least_of,
        most_of=role.most_of,
        tasks=max(role.tasks, default=0),
    )


def compute_rate(steps: Curve) -> Curve:
    """Return the steps per second between the points of a curve of steps; none where the steps went back.

    Of many points, a rate is that of several intervals: in a short one, a whole step more or less would be visible.
    """
    width = 1 + len(steps.at) // _POINTS_PER_RATE
    points: list[tuple[float, float]] = []
    start = 0
    for number in range(1, len(steps.at)):
        if steps.middle[number] < steps.middle[number - 1]:
            start = number  # it returned to a checkpoint
            continue
        since = max(start, number - width)
        made, seconds = steps.middle[number] - steps.middle[since], steps.at[number] - steps.at[since]
        points.append((steps.at[number], made / seconds))
    rates = tuple(rate for _, rate in points)
    at = tuple(moment for moment, _ in points)
    return Curve(label=steps.label, every=steps.every, at=at, least=rates, middle=rates, most=rates)


def is_gpu_utilization(series: str) -> bool:
    """Return True for the utilization of a device: `gpu0.util`."""
    return series.startswith("gpu") and series.endswith(".util")


def average(curves: Sequence[Curve], label: str) -> Curve:
    """Return the mean of some curves, with their whole range, where all of them have a point."""
    points = [dict(zip(each.at, zip(each.least, each.middle, each.most, strict=True), strict=True)) for each in curves]
    at = tuple(moment for moment in (points[0] if points else ()) if all(moment in each for each in points))
    return Curve(
        label=label,
        every=max((each.every for each in curves), default=1.0),
        at=at,
        least=tuple(min(each[moment][0] for each in points) for moment in at),
        middle=tuple(sum(each[moment][1] for each in points) / len(points) for moment in at),
        most=tuple(max(each[moment][2] for each in points) for moment in at),
        tasks=max((each.tasks for each in curves), default=0),
    )


def order_by_step(curve: Curve, steps: Curve) -> Curve:
    """Return a curve over steps instead of time.

    After a return to an earlier step only the later points of the repeated steps remain.
    """
    kept: list[tuple[float, int]] = []
    for number, moment in enumerate(curve.at):
        step = _find_step(steps, moment)
        if step is None:
            continue
        while kept and kept[-1][0] >= step:
            kept.pop()
        kept.append((step, number))
    numbers = [number for _, number in kept]
    return replace(
        curve,
        at=tuple(step for step, _ in kept),
        least=_pick(curve.least, numbers),
        middle=_pick(curve.middle, numbers),
        most=_pick(curve.most, numbers),
        least_of=_pick(curve.least_of, numbers),
        most_of=_pick(curve.most_of, numbers),
    )


def _find_step(steps: Curve, moment: float) -> float | None:
    """Return the step at a moment, between two points in proportion; None before the first step."""
    place = bisect_left(steps.at, moment)
    if place == len(steps.at):
        return steps.middle[-1] if steps.middle else None
    if steps.at[place] == moment:
        return steps.middle[place]
    if place == 0:
        return None
    before, after = steps.middle[place - 1], steps.middle[place]
    share = (moment - steps.at[place - 1]) / (steps.at[place] - steps.at[place - 1])
    return before + share * (after - before)


def _pick(values: Sequence[T], numbers: Sequence[int]) -> tuple[T, ...]:
    return tuple(values[number] for number in numbers) if values else ()


def smooth(curve: Curve, weight: float) -> Curve:
    """Return a curve whose middle is an exponential moving average, unbiased at its start."""
    average, share, smoothed = 0.0, 1.0, []
    for value in curve.middle:
        average = weight * average + (1 - weight) * value
        share *= weight
        smoothed.append(average / (1 - share))
    return replace(curve, middle=tuple(smoothed), unsmoothed=curve.middle)
