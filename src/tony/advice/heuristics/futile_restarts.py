"""Restarts that have never helped."""

from __future__ import annotations

from collections.abc import Iterator

from tony.advice.facts import Facts, FailureRecord, Run
from tony.advice.heuristic import Heuristic, Threshold
from tony.advice.recommendation import (
    Evidence,
    Recommendation,
    Saving,
    SettingChange,
    SettingKey,
    SettingValue,
    Severity,
    savings_range,
)
from tony.core.events import FailureResponse
from tony.model.ids import parse_role
from tony.units import Unit, format_amount, format_count, format_exact_duration

#: Round durations, in seconds.
_ROUND_SECONDS = (5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0)


class FutileRestarts(Heuristic):
    """Recommends `min_uptime` for programs that always fail early."""

    name = "restarts-in-vain"
    title = "Restarts that never helped"
    thresholds = (
        Threshold("restarts", 3, Unit.COUNT, "minimum number of restarts in all runs that led to the same failure"),
        Threshold("early", 600.0, Unit.SECONDS, "maximum run time of each failure, for a recommendation"),
        Threshold("margin", 2.0, Unit.TIMES, "the longest of these run times is recommended"),
    )

    def evaluate(self, facts: Facts) -> Iterator[Recommendation]:
        if facts.run.succeeded or any(run.succeeded and run.restarts for run in facts.runs):
            return
        futile = [(run, run.failures) for run in facts.runs if _is_futile(run)]
        restarts = sum(len(failures) - 1 for _, failures in futile)
        if not futile or futile[0][0] is not facts.run or restarts < self.limits["restarts"]:
            return
        how = {failure.how for _, failures in futile for failure in failures}
        if len(how) != 1:
            return
        lasted = [failure.ran for _, failures in futile for failure in failures if failure.ran is not None]
        longest = max(lasted, default=0.0)
        patch = self._patch(facts.run, longest)
        yield self.recommend(
            Severity.HIGH if restarts >= 2 * self.limits["restarts"] else Severity.MEDIUM,
            f"{format_count(restarts, 'restart')} led to the same failure ({how.pop()}), and none ever helped",
            (
                Evidence("futile restarts", restarts),
                Evidence("runs", len(futile)),
                Evidence("longest run time before the failure", longest, Unit.SECONDS),
            ),
            saving=Saving(
                gb_hours=savings_range([0.0, *(_estimate_cost(run, run.ledger.whole_gb_hours) for run, _ in futile)]),
                gpu_hours=savings_range([0.0, *(_estimate_cost(run, run.ledger.whole_gpu_hours) for run, _ in futile)]),
            ),
            patch=patch,
            hint=""
            if patch
            else f"It fails after up to {format_amount(longest, Unit.SECONDS)}: compare the logs of the sessions.",
            runs=len(futile),
        )

    def _patch(self, run: Run, longest: float) -> tuple[SettingChange, ...]:
        if run.spec.min_uptime is not None or longest > self.limits["early"]:
            return ()
        new = next((nice for nice in _ROUND_SECONDS if nice >= self.limits["margin"] * longest), None)
        if new is None:
            return ()
        value = SettingValue(format_exact_duration(new))
        return (SettingChange(key=SettingKey(("min_uptime",)), old=SettingValue(), new=value),)


def _is_futile(run: Run) -> bool:
    """Return True if every session failed the same way, and none made more progress than the first."""
    failures = run.failures
    if run.succeeded or run.ended is None or len(failures) < 2 or not all(map(_is_own_failure, failures)):
        return False
    if len({(failure.how, parse_role(failure.task)) for failure in failures}) != 1:
        return False
    steps = list(run.furthest.items())
    return not steps or max(steps)[1] <= min(steps)[1]


def _is_own_failure(failure: FailureRecord) -> bool:
    return failure.by_program and failure.ran is not None and failure.decision is not FailureResponse.TOLERATE


def _estimate_cost(run: Run, whole: float) -> float:
    """Return the cost of the sessions after the second one, in proportion to their number."""
    return whole * max(0, run.sessions - 2) / run.sessions if run.sessions else 0.0
