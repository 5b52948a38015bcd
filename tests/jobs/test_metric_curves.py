"""Curves over time and over steps, of a task, a role and a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from tony.history.metrics_reader import Metrics
from tony.history.metrics_schema import TaskMetricsUpdate
from tony.history.metrics_writer import MetricsWriter
from tony.jobs.metric_curves import (
    GPU_USE,
    STEP_RATE,
    Curve,
    CurveAxis,
    CurveOwner,
    compute_rate,
    load_curve,
    order_by_step,
    smooth,
)

WORKER = CurveOwner(role="worker")


def curve(at: tuple[float, ...], middle: tuple[float, ...]) -> Curve:
    return Curve(label="worker", every=5.0, at=at, least=middle, middle=middle, most=middle)


def write(path: Path, **tasks: dict[str, list[float]]) -> None:
    """Write series of tasks: role and index without the colon."""
    updates = [
        TaskMetricsUpdate(
            f"{name[:-1]}:{name[-1]}",
            name[:-1],
            5.0,
            True,
            0,
            {series: [each for value in values for each in (value, value, value)] for series, values in found.items()},
        )
        for name, found in tasks.items()
    ]
    writer = MetricsWriter(path, "job-1", 5.0)
    writer.write(updates)
    writer.close()


def test_a_return_to_a_checkpoint_replaces_the_repeated_steps() -> None:
    """Steps 30 and 40 were made twice; the loss of the second time counts, as the model has it."""
    times = (5.0, 10.0, 15.0, 20.0, 25.0, 30.0)
    found = order_by_step(curve(times, (9, 8, 7, 6, 6.5, 5)), curve(times, (10, 20, 30, 40, 30, 50)))
    assert list(zip(found.at, found.middle, strict=True)) == [(10, 9), (20, 8), (30, 6.5), (50, 5)]


def test_values_before_the_first_step_have_no_place_on_its_axis() -> None:
    """Between two reports the step is in proportion to the time."""
    found = order_by_step(curve((5.0, 10.0, 15.0, 20.0), (1, 2, 3, 4)), curve((10.0, 20.0), (100, 200)))
    assert list(zip(found.at, found.middle, strict=True)) == [(100, 2), (150, 3), (200, 4)]


def test_no_rate_where_steps_went_back() -> None:
    found = compute_rate(curve((0.0, 10.0, 20.0, 30.0), (0, 50, 20, 40)))
    assert list(zip(found.at, found.middle, strict=True)) == [(10, 5), (30, 2)]


def test_the_rate_of_many_points_spans_several_intervals() -> None:
    """A step that falls into the next second makes no rate of 0, and none of twice as much."""
    steps = tuple(float(2 * (number // 2)) for number in range(80))
    found = compute_rate(curve(tuple(map(float, range(80))), steps))
    assert set(found.middle[2:]) == {2 / 3, 4 / 3}


def test_smoothing_begins_at_the_first_value() -> None:
    """A constant stays what it is, and the values before are kept."""
    constant = smooth(curve((1.0, 2.0, 3.0), (4.0, 4.0, 4.0)), 0.9)
    assert constant.middle == pytest.approx((4.0, 4.0, 4.0))
    jump = smooth(curve((1.0, 2.0), (0.0, 1.0)), 0.5)
    assert jump.middle == pytest.approx((0.0, 2 / 3))
    assert jump.unsmoothed == (0.0, 1.0)


def test_a_role_and_a_whole_job(tmp_path: Path) -> None:
    """The median of the role's tasks, and of all tasks, each with its outliers."""
    path = tmp_path / "metrics.db"
    write(path, worker0={"cpu": [1.0, 2.0]}, worker1={"cpu": [3.0, 4.0]}, ps0={"cpu": [8.0, 9.0]})
    with Metrics(path) as metrics:
        role = load_curve(metrics, WORKER, "cpu")
        job = load_curve(metrics, CurveOwner(name="digits"), "cpu")
        task = load_curve(metrics, CurveOwner(task="ps:0"), "cpu")
    assert (role.label, role.middle, role.most_of) == ("worker", (2.0, 3.0), ("worker:1", "worker:1"))
    assert (job.label, job.middle, job.most_of) == ("digits", (3.0, 4.0), ("ps:0", "ps:0"))
    assert (task.label, task.middle, task.most_of) == ("ps:0", (8.0, 9.0), ())


def test_a_role_without_steps_takes_those_of_the_job(tmp_path: Path) -> None:
    """A parameter server computes nothing, and its memory grows with the steps of the workers all the same."""
    path = tmp_path / "metrics.db"
    write(path, worker0={"step": [10.0, 20.0, 40.0], "cpu": [1.0, 1.0, 1.0]}, ps0={"cpu": [5.0, 6.0, 7.0]})
    with Metrics(path) as metrics:
        found = load_curve(metrics, CurveOwner(role="ps"), "cpu", CurveAxis.STEP)
        rate = load_curve(metrics, WORKER, STEP_RATE.name)
        none = load_curve(metrics, CurveOwner(role="ps"), STEP_RATE.name)
    assert (found.at, found.middle) == ((10.0, 20.0, 40.0), (5.0, 6.0, 7.0))
    assert rate.middle == (2.0, 4.0)
    assert none.at == ()


def test_several_devices_are_averaged(tmp_path: Path) -> None:
    path = tmp_path / "metrics.db"
    write(path, worker0={"gpu0.util": [0.5, 0.25], "gpu1.util": [1.0, 0.75]})
    with Metrics(path) as metrics:
        found = load_curve(metrics, WORKER, GPU_USE.name)
        assert load_curve(metrics, CurveOwner(role="ps"), GPU_USE.name).at == ()
    assert (found.least, found.middle, found.most) == ((0.5, 0.25), (0.75, 0.5), (1.0, 0.75))
