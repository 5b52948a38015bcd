"""Checkpoint intervals that are too long for the failure rate, or needlessly short."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tony.advice.facts import CheckpointStats, Facts, Run
from tony.advice.heuristic import Heuristic, Threshold
from tony.advice.recommendation import (
    Evidence,
    Interval,
    Recommendation,
    Saving,
    SettingChange,
    SettingKey,
    SettingValue,
    Severity,
    savings_range,
)
from tony.core.events import FailureResponse
from tony.history.goodput import Bucket
from tony.units import Unit, format_amount, format_duration

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


def estimate_failure_rate(facts: Facts) -> FailureRate | None:
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


def compute_best_interval(cost: float, mttf: float) -> float:
    """Return the optimal checkpoint interval in seconds: Daly's formula, or the MTTF if `cost >= 2 * mttf`."""
    if cost >= 2 * mttf:
        return mttf
    ratio = cost / (2 * mttf)
    return math.sqrt(2 * cost * mttf) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - cost


def compute_overhead(cost: float, every: float, mttf: float) -> float:
    """Return the share of time lost to checkpoints and to recomputed work (half an interval per failure)."""
    return cost / every + (every / 2) / mttf


class CheckpointInterval(Heuristic):
    """Recommends Daly's interval, or the nearest one with little overhead."""

    name = "checkpoint-interval"
    title = "Checkpoints are too rare for the failure rate"
    thresholds = (
        Threshold("failures", 3, Unit.COUNT, "minimum number of failures in all runs"),
        Threshold("gain", 0.03, Unit.SHARE, "minimum share of the job's time that would be saved"),
        Threshold("slower", 0.03, Unit.SHARE, "maximum slowdown of a run without failures"),
        Threshold("count", 2, Unit.COUNT, "minimum number of checkpoints of the run"),
    )

    def evaluate(self, facts: Facts) -> Iterator[Recommendation]:
        run, rate = facts.run, estimate_failure_rate(facts)
        saves = run.saves
        if rate is None or rate.mttf is None or saves is None or not saves.every or saves.cost <= 0:
            return
        if rate.failures < self.limits["failures"] or saves.count < self.limits["count"]:
            return
        better = max(
            compute_best_interval(saves.cost, rate.mttf),
            saves.cost / (saves.cost / saves.every + self.limits["slower"]),
        )
        if better >= saves.every:
            return
        gains = [_gain(saves, better, mttf) for mttf in (rate.most, rate.mttf, rate.least)]
        if gains[1] < self.limits["gain"]:
            return
        yield self._build_recommendation(run, saves, rate, better, gains)

    def _build_recommendation(
        self, run: Run, saves: CheckpointStats, rate: FailureRate, better: float, gains: list[float]
    ) -> Recommendation:
        share = Interval(max(0.0, gains[0]), max(gains[1], min(gains[2], 1.0)))
        assert saves.every is not None
        assert rate.mttf is not None
        return self.recommend(
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
            patch=build_interval_change(run, saves, better),
            hint=format_interval_hint(saves, better),
        )


def _gain(saves: CheckpointStats, better: float, mttf: float) -> float:
    assert saves.every is not None
    return compute_overhead(saves.cost, saves.every, mttf) - compute_overhead(saves.cost, better, mttf)


def _scale(share: Interval, whole: float) -> Interval | None:
    return Interval(share.least * whole, share.most * whole) if whole else None


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
            patch=build_interval_change(run, saves, better),
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


_NAME = re.compile(r"save|checkpoint|ckpt|snapshot", re.IGNORECASE)
#: Tolerance between the measured interval and a parameter in seconds.
_TOLERANCE = 0.1


def build_interval_change(run: Run, saves: CheckpointStats, seconds: float) -> tuple[SettingChange, ...]:
    """Return the change to a checkpoint interval in seconds; empty if the parameter is not certain.

    A parameter is certain if its name refers to saving and its value equals the measured steps or seconds.
    """
    found = [
        (key, int(text), new)
        for key, text in _find_interval_settings(run)
        if _NAME.search(str(key)) and (new := _compute_new_value(text, saves, seconds)) is not None
    ]
    if len(found) != 1:
        return ()
    key, old, new = found[0]
    return (SettingChange(key=key, old=SettingValue(old), new=SettingValue(new)),) if new != old else ()


def format_interval_hint(saves: CheckpointStats, seconds: float) -> str:
    """Return `Save every 5 m, every 300 steps.`"""
    steps = ""
    if saves.steps and saves.every:
        steps = f", every {max(1, round(saves.steps * seconds / saves.every))} steps"
    return f"Save every {format_duration(seconds)}{steps}."


def _find_interval_settings(run: Run) -> list[tuple[SettingKey, str]]:
    spec = run.spec
    found = [(SettingKey(("params", name)), str(value)) for name, value in spec.params.items()]
    found += [(SettingKey(("env", name)), str(value)) for name, value in spec.env.items()]
    return found + [
        (SettingKey(("roles", role, "env", name)), str(value))
        for role, each in spec.roles.items()
        for name, value in each.env.items()
    ]


def _compute_new_value(text: str, saves: CheckpointStats, seconds: float) -> int | None:
    """Return the new value; None if the present one is not the measured interval."""
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII) or not saves.every:
        return None
    value = int(text)
    if value == saves.steps and value > 0:
        return max(1, round(saves.steps * seconds / saves.every))
    if value and abs(value - saves.every) <= _TOLERANCE * value:
        return max(1, round(seconds))
    return None
