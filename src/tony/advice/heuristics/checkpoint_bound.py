"""Programs that spend much of their time saving checkpoints."""

from __future__ import annotations

from collections.abc import Iterator

from tony.advice.checkpoint_setting import change_of_interval, format_interval_hint
from tony.advice.facts import CheckpointStats, Facts, Run
from tony.advice.heuristic import Heuristic, Threshold
from tony.advice.heuristics.checkpoint_interval import compute_best_interval, estimate_failure_rate
from tony.advice.recommendation import Evidence, Recommendation, Saving, Severity, savings_range
from tony.history.goodput import Bucket
from tony.units import Unit, format_amount


class CheckpointBound(Heuristic):
    """Recommends to save less often, as far as the failure rate allows."""

    name = "checkpoint-bound"
    title = "Much time goes into checkpoints"
    thresholds = (
        Threshold(
            "share",
            0.1,
            Unit.SHARE,
            "minimum share of the time between first and last step that goes into checkpoints",
        ),
        Threshold("count", 5, Unit.COUNT, "minimum number of checkpoints of a run"),
        Threshold("runs", 2, Unit.COUNT, "minimum number of such runs"),
        Threshold("seconds", 300.0, Unit.SECONDS, "minimum run time of programs, over all runs"),
        Threshold("part", 0.2, Unit.SHARE, "maximum recommended interval, as a share of a run"),
    )

    def evaluate(self, facts: Facts) -> Iterator[Recommendation]:
        bound = [(run, run.saves, share) for run in facts.runs if run.saves and (share := self._compute_share(run))]
        rate = estimate_failure_rate(facts)
        if not bound or bound[0][0] is not facts.run or len(bound) < self.limits["runs"] or rate is None:
            return
        run, saves, share = bound[0]
        if rate.running < self.limits["seconds"] or not saves.every:
            return
        better = min(compute_best_interval(saves.cost, rate.least), self.limits["part"] * run.running)
        if better < 1.5 * saves.every:
            return  # the failure rate justifies it, or only saving faster would help
        savings = [self._compute_saved_share(each, saved, better) for each, saved, _ in bound]
        yield self.recommend(
            Severity.HIGH if share >= 0.25 else Severity.MEDIUM,
            f"{format_amount(share, Unit.SHARE)} of the time goes into checkpoints",
            (
                Evidence("share of time in checkpoints", share, Unit.SHARE),
                Evidence("duration of a checkpoint", saves.cost, Unit.SECONDS),
                Evidence("present interval", saves.every, Unit.SECONDS),
                Evidence("failures in all runs", rate.failures),
                Evidence("run time of programs in all runs", rate.running, Unit.SECONDS),
            ),
            saving=Saving(
                gpu_hours=savings_range(
                    run.ledger.whole_gpu_hours * part for (run, _, _), part in zip(bound, savings, strict=True)
                ),
                gb_hours=savings_range(
                    run.ledger.whole_gb_hours * part for (run, _, _), part in zip(bound, savings, strict=True)
                ),
            ),
            patch=change_of_interval(run, saves, better),
            hint=format_interval_hint(saves, better),
            runs=len(bound),
        )

    def _compute_share(self, run: Run) -> float | None:
        """Return the share of checkpoints in the time between first and last step; None if below the threshold."""
        saving = run.seconds(Bucket.CHECKPOINT)
        steps = sum(run.seconds(bucket) or 0.0 for bucket in (Bucket.PRODUCTIVE, Bucket.UNKNOWN))
        if not saving or run.saves is None or run.saves.count < self.limits["count"]:
            return None
        share = saving / (saving + steps)
        return share if share >= self.limits["share"] else None

    def _compute_saved_share(self, run: Run, saves: CheckpointStats, better: float) -> float:
        """Return the share of a run that would be saved."""
        saving = run.seconds(Bucket.CHECKPOINT) or 0.0
        kept = min(1.0, (saves.every or better) / better)
        return saving * (1 - kept) / run.ledger.whole if run.ledger.whole else 0.0
