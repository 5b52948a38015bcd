"""Checkpoint intervals that are too long for the failure rate."""

from __future__ import annotations

from collections.abc import Iterator

from tony.advice.checkpoint_setting import change_of_interval
from tony.advice.facts import Facts, Run, Saves
from tony.advice.failure_rate import FailureRate, best_interval, failure_rate, overhead
from tony.advice.heuristic import Heuristic, Threshold
from tony.advice.recommendation import Evidence, Finding, Interval, Saving, Severity
from tony.units import Unit, format_amount, format_duration


class CheckpointInterval(Heuristic):
    """Recommends Daly's interval, or the nearest one with little overhead."""

    name = "checkpoint-interval"
    title = "Checkpoints are too rare for the failure rate"
    about = """\
After a failure the work since the last checkpoint is recomputed: half an interval, on average. Saving more often
costs time, too. A checkpoint every `sqrt(2 * cost * MTTF)` seconds loses the least time (Young 1974; tony uses Daly's
more exact formula of 2006), where MTTF is the mean time between failures of the gang. Both are measured: the cost with
`tony.checkpoint(step)`, the failures over all runs of the job. Failures in the first minute do not count.

Saving more often slows down a run without failures. The recommendation therefore does not cost more than `slower`,
even if the optimal interval is shorter; later runs may lead to a further recommendation.

The range of the saving comes from the confidence interval of the MTTF."""
    thresholds = (
        Threshold("failures", 3, Unit.COUNT, "minimum number of failures in all runs"),
        Threshold("gain", 0.03, Unit.SHARE, "minimum share of the job's time that would be saved"),
        Threshold("slower", 0.03, Unit.SHARE, "maximum slowdown of a run without failures"),
        Threshold("count", 2, Unit.COUNT, "minimum number of checkpoints of the run"),
    )

    def look(self, facts: Facts) -> Iterator[Finding]:
        run, rate = facts.run, failure_rate(facts)
        saves = run.saves
        if rate is None or rate.mttf is None or saves is None or not saves.every or saves.cost <= 0:
            return
        if rate.failures < self.limits["failures"] or saves.count < self.limits["count"]:
            return
        better = max(
            best_interval(saves.cost, rate.mttf), saves.cost / (saves.cost / saves.every + self.limits["slower"])
        )
        if better >= saves.every:
            return
        gains = [_gain(saves, better, mttf) for mttf in (rate.most, rate.mttf, rate.least)]
        if gains[1] < self.limits["gain"]:
            return
        yield self._found(run, saves, rate, better, gains)

    def _found(self, run: Run, saves: Saves, rate: FailureRate, better: float, gains: list[float]) -> Finding:
        share = Interval(max(0.0, gains[0]), max(gains[1], min(gains[2], 1.0)))
        assert saves.every is not None
        assert rate.mttf is not None
        steps = ""
        if saves.steps:
            steps = f", every {max(1, round(saves.steps * better / saves.every))} steps"
        return self.finding(
            Severity.HIGH if gains[1] >= 0.1 else Severity.MEDIUM,
            f"the job fails every {format_duration(rate.mttf)} and saves every {format_duration(saves.every)}: more "
            f"frequent checkpoints would save {format_amount(gains[1], Unit.SHARE)} of its time",
            (
                Evidence("failures in all runs", rate.failures),
                Evidence("mean time to failure", rate.mttf, Unit.SECONDS),
                Evidence("lower bound of it (90 % confidence)", rate.least, Unit.SECONDS),
                Evidence("duration of a checkpoint", saves.cost, Unit.SECONDS),
                Evidence("present interval", saves.every, Unit.SECONDS),
            ),
            saving=Saving(
                gpu_hours=_scale(share, run.ledger.whole_gpu_hours),
                gb_hours=_scale(share, run.ledger.whole_gb_hours),
                seconds=_scale(share, run.running),
            ),
            patch=change_of_interval(run, saves, better),
            hint=f"Save every {format_duration(better)}{steps}.",
        )


def _gain(saves: Saves, better: float, mttf: float) -> float:
    assert saves.every is not None
    return overhead(saves.cost, saves.every, mttf) - overhead(saves.cost, better, mttf)


def _scale(share: Interval, whole: float) -> Interval | None:
    return Interval(share.least * whole, share.most * whole) if whole else None
