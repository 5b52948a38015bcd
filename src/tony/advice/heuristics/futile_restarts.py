"""Restarts that have never helped."""

from __future__ import annotations

from collections.abc import Iterator

from tony.advice.exit_facts import Failed
from tony.advice.facts import Facts, Run
from tony.advice.heuristic import Heuristic, Threshold
from tony.advice.number_format import amount, count
from tony.advice.recommendation import Evidence, Finding, Measure, Saving, SettingChange, Severity, savings_range
from tony.units import exact_duration

#: Times that people write.
_NICE = (5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0)


class RestartsInVain(Heuristic):
    """Proposes to stop what fails at once each time."""

    name = "restarts-in-vain"
    title = "Restarts that never helped"
    about = """\
The program ended the same way after every restart, and no run of this job succeeded after one: an error in the
program or its data.

If it fails soon after the start, the recommendation is `min_uptime`: a program that ends sooner in two sessions in a
row is not started again. If it fails late there is none; check whether it gets beyond its checkpoint."""
    thresholds = (
        Threshold("restarts", 3, Measure.COUNT, "least number of restarts, over all runs, with the same failure"),
        Threshold("early", 600.0, Measure.SECONDS, "latest failure after a start, for a recommendation"),
        Threshold("margin", 2.0, Measure.TIMES, "the longest of those times is recommended, at least"),
    )

    def look(self, facts: Facts) -> Iterator[Finding]:
        """The job as a whole."""
        if facts.run.succeeded or any(run.succeeded and run.restarts for run in facts.runs):
            return
        vain = [(run, run.failures) for run in facts.runs if _is_vain(run)]
        restarts = sum(len(failures) - 1 for _, failures in vain)
        if not vain or vain[0][0] is not facts.run or restarts < self.limits["restarts"]:
            return
        how = {failure.how for _, failures in vain for failure in failures}
        if len(how) != 1:
            return
        lasted = [failure.ran for _, failures in vain for failure in failures if failure.ran is not None]
        longest = max(lasted, default=0.0)
        patch = self._patch(facts.run, longest)
        yield self.finding(
            Severity.HIGH if restarts >= 2 * self.limits["restarts"] else Severity.MEDIUM,
            f"{count(restarts, 'restart')} led to the same failure ({how.pop()}), and none ever helped",
            (
                Evidence("restarts in vain", restarts),
                Evidence("runs", len(vain)),
                Evidence("its program had run at most", longest, Measure.SECONDS),
            ),
            saving=Saving(
                gb_hours=savings_range([0.0, *(_spent(run, run.ledger.whole_gb_hours) for run, _ in vain)]),
                gpu_hours=savings_range([0.0, *(_spent(run, run.ledger.whole_gpu_hours) for run, _ in vain)]),
            ),
            patch=patch,
            hint=""
            if patch
            else f"It fails after up to {amount(longest, Measure.SECONDS)}: see its log of each session.",
            runs=len(vain),
        )

    def _patch(self, run: Run, longest: float) -> tuple[SettingChange, ...]:
        if run.spec.min_uptime is not None or longest > self.limits["early"]:
            return ()
        new = next((nice for nice in _NICE if nice >= self.limits["margin"] * longest), None)
        return () if new is None else (SettingChange(key="min_uptime", old="", new=f'"{exact_duration(new)}"'),)


def _is_vain(run: Run) -> bool:
    """It failed after restarts, each time the same way and none farther than the first time, as far as that is told."""
    failures = run.failures
    if run.succeeded or run.ended is None or len(failures) < 2 or not all(map(_by_itself, failures)):
        return False
    if len({(failure.how, failure.task.rpartition(":")[0]) for failure in failures}) != 1:
        return False
    steps = list(run.furthest.items())
    return not steps or max(steps)[1] <= min(steps)[1]


def _by_itself(failure: Failed) -> bool:
    return failure.by_program and failure.ran is not None and failure.decision != "tolerate"


def _spent(run: Run, whole: float) -> float:
    """What the sessions after the second one have cost, by their number."""
    return whole * max(0, run.sessions - 2) / run.sessions if run.sessions else 0.0
