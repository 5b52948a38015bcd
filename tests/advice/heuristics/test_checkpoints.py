"""How often a job fails, and Young's and Daly's intervals."""

from __future__ import annotations

import math
from random import Random

import pytest

from tests.advice.fleet import facts
from tests.advice.jobs import checkpoint_interval, memory_over_asked
from tony.advice.heuristics.checkpoints import compute_best_interval, compute_overhead, estimate_failure_rate


@pytest.mark.parametrize(("cost", "mttf"), [(10.0, 3600.0), (60.0, 86_400.0), (300.0, 10_000.0)])
def test_the_best_interval_loses_least(cost: float, mttf: float) -> None:
    """Nothing to either side of it is better by more than a hundredth; near Young's where a checkpoint is cheap."""
    best = compute_best_interval(cost, mttf)
    least = min(compute_overhead(cost, every, mttf) for every in range(1, 50_000, 7))
    assert compute_overhead(cost, best, mttf) <= least * 1.01
    assert best == pytest.approx(math.sqrt(2 * cost * mttf), rel=0.2)


def test_a_checkpoint_that_costs_more_than_a_failure() -> None:
    """The interval is the mean time to failure, as Daly says."""
    assert 10.0 == compute_best_interval(30.0, 10.0)


def test_the_rate_is_within_its_confidence_interval() -> None:
    """Known quantiles: 8 failures in the time t mean t/8, between t/14.43 and t/3.98 (90 %)."""
    known = facts(checkpoint_interval(Random(1)), Random(1))
    rate = estimate_failure_rate(known)
    assert rate is not None
    assert 8 == rate.failures
    assert rate.mttf == pytest.approx(rate.running / 8)
    assert rate.least == pytest.approx(rate.running / 14.43, rel=0.02)
    assert rate.most == pytest.approx(rate.running / 3.98, rel=0.02)


def test_without_failures_only_the_least_is_known() -> None:
    """With 95 % certainty it is a third of the time that nothing failed in."""
    rate = estimate_failure_rate(facts(memory_over_asked(Random(1)), Random(1)))
    assert rate is not None
    assert (0, None, math.inf) == (rate.failures, rate.mttf, rate.most)
    assert rate.least == pytest.approx(rate.running / 3.0, rel=0.03)
