"""How often a job fails, and how often it had better be saved. Pure.

Young (1974) and Daly (2006): a checkpoint of `cost` seconds every `sqrt(2 * cost * mttf)` seconds loses the least, the
time of saving and the work that is lost to a failure together. MTTF is the mean time to failure of the whole gang.
"""

from __future__ import annotations

import math

from tony.advice.facts import Facts
from tony.dataclass import dataclass

#: Seconds that a program must have run: what fails at once is no chance, and fails again.
_LIVED = 60.0
#: Normal quantiles of a two-sided interval of 90 %.
_Z = 1.645


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRate:
    """How often a gang that runs fails.

    Attributes:
        failures: that were counted; running: seconds in which they could have happened.
        mttf: seconds; None without failures.
        least, most: where it lies with 90 % certainty; most is infinite without failures.
    """

    failures: int
    running: float
    mttf: float | None
    least: float
    most: float


def failure_rate(facts: Facts) -> FailureRate | None:
    """Over all runs; None if nothing ran. What fails in its first minute is left out."""
    running = math.fsum(run.running for run in facts.runs)
    if running <= 0:
        return None
    failures = sum(
        failure.decision != "tolerate" and (failure.ran is None or failure.ran >= _LIVED)
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
    """The quantile of a chi-square distribution for a normal quantile (Wilson and Hilferty, good to 1 %)."""
    part = 2 / (9 * freedom)
    return freedom * max(1e-3, 1 - part + z * math.sqrt(part)) ** 3


def best_interval(cost: float, mttf: float) -> float:
    """Seconds from one checkpoint to the next (Daly's formula; the mttf itself if a checkpoint costs as much)."""
    if cost >= 2 * mttf:
        return mttf
    ratio = cost / (2 * mttf)
    return math.sqrt(2 * cost * mttf) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - cost


def overhead(cost: float, every: float, mttf: float) -> float:
    """The share of its time that a job loses: to saving, and to work that is done again; half an interval a failure."""
    return cost / every + (every / 2) / mttf
