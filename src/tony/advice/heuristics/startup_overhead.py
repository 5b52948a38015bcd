"""Jobs that spend much of their time in container setup."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tony.advice.facts import Facts, Run
from tony.advice.heuristic import Heuristic, Threshold
from tony.advice.recommendation import Evidence, Recommendation, Saving, Severity, savings_range
from tony.history.goodput import Bucket, GoodputLedger
from tony.model.setting_choices import RoleKind
from tony.units import Unit, format_amount


class StartupOverhead(Heuristic):
    """Reports the setup time; no setting of the job file shortens it."""

    name = "start-up"
    title = "Container setup takes much of the time"
    thresholds = (
        Threshold("share", 0.25, Unit.SHARE, "minimum share of the time for which containers were allocated"),
        Threshold("seconds", 60.0, Unit.SECONDS, "minimum per task, on average"),
        Threshold("runs", 2, Unit.COUNT, "minimum number of such runs"),
    )

    def evaluate(self, facts: Facts) -> Iterator[Recommendation]:
        if any(role.kind is RoleKind.SETUP for role in facts.run.roles.values()):
            return  # their run time counts as setup
        found = [(run, *setup) for run in facts.runs if run.succeeded and (setup := self._compute_share(run.ledger))]
        if len(found) < self.limits["runs"] or found[0][0] is not facts.run:
            return
        run, share, seconds = found[0]
        yield self.recommend(
            Severity.MEDIUM if share >= 0.5 else Severity.LOW,
            f"container setup takes {format_amount(seconds, Unit.SECONDS)} per task, "
            f"{format_amount(share, Unit.SHARE)} of the time for which its container is allocated",
            (
                Evidence("setup time, per task on average", seconds, Unit.SECONDS),
                Evidence("share of the allocated time", share, Unit.SHARE),
                Evidence("runs with such a share", len(found)),
            ),
            saving=Saving(
                gb_hours=savings_range([0.0, *(_hours(each.ledger.gb_hours) for each, _, _ in found)]),
                gpu_hours=savings_range([0.0, *(_hours(each.ledger.gpu_hours) for each, _, _ in found)]),
                seconds=savings_range([0.0, *(each for _, _, each in found)]),
            ),
            hint=_hint(run),
            runs=len(found),
        )

    def _compute_share(self, ledger: GoodputLedger) -> tuple[float, float] | None:
        """Return the share of setup in the allocated time, and seconds per task; None if below the thresholds."""
        whole = sum(value for task in ledger.tasks for value in task.held.values() if value is not None)
        taken = sum(task.held[Bucket.SET_UP.value] or 0.0 for task in ledger.tasks)
        seconds = taken / max(1, len(ledger.tasks))
        if whole <= 0 or taken < self.limits["share"] * whole or seconds < self.limits["seconds"]:
            return None
        return taken / whole, seconds


def _hours(spent: Mapping[str, float | None]) -> float:
    return spent[Bucket.SET_UP.value] or 0.0


def _hint(run: Run) -> str:
    if run.spec.python and not run.spec.python.startswith("/"):
        return f"Its environment {run.spec.python} is copied to every node; install it on the nodes to avoid that."
    return "Check source, python and files; leave out what programs do not need."
