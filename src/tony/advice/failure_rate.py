"""The failure rate of a job, and its optimal checkpoint interval. Pure.

Young (1974) and Daly (2006): a checkpoint of `cost` seconds every `sqrt(2 * cost * mttf)` seconds minimises the sum of
checkpoint time and lost work. MTTF is the mean time to failure of the whole gang.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tony.advice.facts import Facts
from tony.core.events import FailureResponse

#: Earlier failures are not random, and will recur.
_MIN_RUN_SECONDS = 60.0
#: Normal quantiles of a two-sided interval of 90 %.
_Z = 1.645


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRate:
    """The failure rate of a running gang.

    Attributes:
        failures: number of failures; running: seconds of run time.
        mttf: seconds; None without failures.
        least, most: 90 % confidence interval of the MTTF; most is infinite without failures.
    """

    failures: int
    running: float
    mttf: float | None
    least: float
    most: float


def failure_rate(facts: Facts) -> FailureRate | None:
    """Return the failure rate over all runs, without failures in the first minute; None if nothing ran."""
    running = math.fsum(run.running for run in facts.runs)
    if running <= 0:
        return None
    failures = sum(
        failure.decision is not FailureResponse.TOLERATE and (failure.ran is None or failure.ran >= _MIN_RUN_SECONDS)
        for run in facts.runs
        for failure in run.failures
    )
    return FailureRate(
        failures=failures,
        running=running,
        mttf=running / failures if failures else None,
        least=2 * running / _chi_square(2 * failures + 2, _Z),
        most=2 * running / _chi_square(2 * failures, -_Z) if failures else math.inf,
    )


def _chi_square(freedom: int, z: float) -> float:
    """Return the chi-square quantile for a normal quantile (Wilson and Hilferty, accurate to 1 %)."""
    part = 2 / (9 * freedom)
    return freedom * max(1e-3, 1 - part + z * math.sqrt(part)) ** 3


def best_interval(cost: float, mttf: float) -> float:
    """Return the optimal checkpoint interval in seconds: Daly's formula, or the MTTF if `cost >= 2 * mttf`."""
    if cost >= 2 * mttf:
        return mttf
    ratio = cost / (2 * mttf)
    return math.sqrt(2 * cost * mttf) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - cost


def overhead(cost: float, every: float, mttf: float) -> float:
    """Return the share of time lost to checkpoints and to recomputed work (half an interval per failure)."""
    return cost / every + (every / 2) / mttf
