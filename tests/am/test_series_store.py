"""Series in memory: what is told of them is true at any width, and they do not grow."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Iterable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tony.am.series_store import MAX_NAMES, MIN_BUCKETS, SeriesStore
from tony.model.metric_definitions import MAX_POINTS, Points


def one(series: SeriesStore, task: str = "worker:0", name: str = "cpu", most: int = MAX_POINTS) -> Points:
    (points,), more = series.answer([task], [name], most)
    assert not more
    return points


def fed(samples: Iterable[tuple[float, float]], interval: float = 5.0, budget: int = 140_000_000) -> SeriesStore:
    series = SeriesStore(["worker:0"], interval, budget)
    for at, value in samples:
        series.add("worker:0", at, {"cpu": value})
    return series


def test_each_sample_is_a_bucket_at_first() -> None:
    """Nothing is lost as long as there is room."""
    points = one(fed([(1.0, 0.5), (6.0, 1.5), (11.0, 0.25)]))
    assert points == Points(
        task="worker:0",
        series="cpu",
        every=5.0,
        at=(5.0, 10.0, 15.0),
        least=(0.5, 1.5, 0.25),
        mean=(0.5, 1.5, 0.25),
        most=(0.5, 1.5, 0.25),
        last=0.25,
    )


def test_the_newest_value_is_the_last_one() -> None:
    """It is no mean, and stays the last one where a later bucket has other series only."""
    series = fed([(1.0, 5.0), (2.0, 4.0), (3.0, 3.0)])
    series.add("worker:0", 4.0, {"step": 7.0})
    assert (one(series).mean, one(series).last, series.find_last("worker:0", "cpu")) == ((4.0,), 3.0, 3.0)
    series.add("worker:0", 1e6, {"step": 8.0})
    assert (one(series).last, one(series, name="step").last) == (3.0, 8.0)
    assert series.find_last("worker:0", "rss") is None


def test_several_samples_in_a_bucket() -> None:
    """Their least, mean and most."""
    points = one(fed([(1.0, 1.0), (2.0, 4.0), (3.0, 1.0)]))
    assert (points.least, points.mean, points.most) == ((1.0,), (2.0,), (4.0,))


def test_a_gap_is_no_number() -> None:
    """Where nothing was measured there is no point."""
    assert one(fed([(1.0, 1.0), (21.0, 2.0)])).at == (5.0, 25.0)


def test_the_newest_of_a_series_is_not_hidden_by_another_ones() -> None:
    """A step is reported alone, ahead of what the program uses."""
    series = fed([(1.0, 1.0), (6.0, 2.0)])
    series.add("worker:0", 11.0, {"step": 7.0})
    assert one(series, most=1).mean == (2.0,)
    assert one(series, name="step", most=1).mean == (7.0,)


def test_a_series_that_begins_later() -> None:
    """It has no points before, and the others are as they were."""
    series = fed([(1.0, 1.0)])
    series.add("worker:0", 6.0, {"cpu": 2.0, "rss": 7.0})
    assert one(series, name="rss").at == (10.0,)
    assert one(series).mean == (1.0, 2.0)


def test_older_samples_go_to_the_oldest_bucket() -> None:
    """A sample from before the first one, of a wrong clock, changes nothing else."""
    series = fed([(100.0, 1.0), (-5.0, 3.0)])
    assert one(series).mean == (2.0,)


@given(
    st.lists(st.tuples(st.floats(0, 50_000), st.floats(-100, 100)), min_size=1, max_size=300),
    st.sampled_from([1.0, 5.0, 33.3]),
)
def test_the_extremes_are_kept_at_every_bucket_width(samples: list[tuple[float, float]], interval: float) -> None:
    """Least and most of all are those that were added; the mean lies between; bounded, however long the job ran."""
    samples.sort()
    series = fed(samples, interval, budget=2_000)
    points = one(series)
    values = [value for _, value in samples]
    assert len(points.at) <= series.capacity == MIN_BUCKETS
    assert min(points.least) == pytest.approx(min(values), rel=1e-6)
    assert max(points.most) == pytest.approx(max(values), rel=1e-6)
    for least, mean, most in zip(points.least, points.mean, points.most, strict=True):
        assert least - 1e-4 <= mean <= most + 1e-4
    assert math.log2(points.every / interval) == int(math.log2(points.every / interval))
    assert points.at[-1] - points.every <= samples[-1][0] + 1e-6 <= points.at[-1] + 1e-6 + 1e-9 * points.at[-1]


@given(st.integers(1, 5000), st.integers(0, 3000))
def test_the_mean_of_all_is_the_mean(count: int, begin: int) -> None:
    """Halving weighs by samples: the mean over all buckets stays that of what was measured, if it came evenly."""
    chance = Random(count)
    values = [chance.random() for _ in range(count)]
    series = fed([(float(begin + second), value) for second, value in enumerate(values)], 1.0, budget=2_000)
    track = series.tracks["worker:0"]
    column = track.columns[0]
    assert column
    total = sum(column[3 * each + 1] * samples for each, samples in enumerate(track.counts) if samples)
    assert sum(track.counts) == count
    assert total / count == pytest.approx(sum(values) / count, rel=1e-4)


def test_series_of_a_previous_attempt_come_first() -> None:
    """As if there had been one AM all the time."""
    chance = Random(7)
    samples = [(5.0 * each, chance.random()) for each in range(400)]
    whole, early, late = fed(samples, budget=2_000), fed(samples[:300], budget=2_000), fed([], budget=2_000)
    track = early.tracks["worker:0"]
    column = track.columns[0]
    assert column
    late.restore("worker:0", track.level, track.first, {"cpu": column[: 3 * len(track.counts)]}, {"cpu": 0.5})
    assert late.find_last("worker:0", "cpu") == 0.5
    for at, value in samples[300:]:
        late.add("worker:0", at, {"cpu": value})
    assert one(late).at == one(whole).at
    for a, b in ((one(late).least, one(whole).least), (one(late).most, one(whole).most)):
        assert a == pytest.approx(b)
    assert one(late).mean == pytest.approx(one(whole).mean, rel=0.05)


def test_only_requested_series_are_returned() -> None:
    """Tasks and names select; what does not fit into one answer is reported as missing."""
    series = SeriesStore([f"worker:{n}" for n in range(100)], 5.0)
    for number in range(100):
        for step in range(300):
            series.add(f"worker:{number}", 5.0 * step, {"cpu": 1.0, "rss": 2.0})
    some, more = series.answer(["worker:7", "unknown:1"], ["rss", "?"], 3)
    assert [(points.task, points.series, len(points.at)) for points in some] == [("worker:7", "rss", 3)]
    assert not more
    everything, more = series.answer([], [], 10_000)
    assert more
    assert max(len(points.at) for points in everything) == MAX_POINTS


def test_names_have_an_end() -> None:
    """A program that makes up a name with each step fills no memory."""
    series = SeriesStore(["worker:0"], 5.0)
    for number in range(2 * MAX_NAMES):
        series.add("worker:0", 1.0, {f"user.n{number}": 1.0})
    assert len(series.names) == MAX_NAMES == series.columns


def test_ten_thousand_tasks_for_a_day() -> None:
    """Twenty series of each of 10,000 tasks take less than 200 MB, at any time of a day."""
    names = [f"s{number}" for number in range(20)]
    tasks = [f"worker:{number}" for number in range(100)]  # a hundredth of them, with a hundredth of the budget
    series = SeriesStore(tasks, 33.0, budget=1_400_000)
    tracemalloc.start()
    try:
        for step in range(0, 24 * 3600, 330):  # a tenth of the samples: buckets follow from time, not from these
            values = dict.fromkeys(names, step + 0.5)
            for task in tasks:
                series.add(task, float(step), values)
            size, _ = tracemalloc.get_traced_memory()
            assert size < 2_000_000
    finally:
        tracemalloc.stop()
    assert series.columns == 2_000
