"""Base class of heuristics (thresholds, and a function from facts to recommendations), and what several share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from tony.advice.facts import Facts, RoleFacts, Run
from tony.advice.recommendation import (
    Evidence,
    Interval,
    Recommendation,
    Saving,
    SettingChange,
    SettingKey,
    SettingValue,
    Severity,
)
from tony.model.job_spec import GIB, MIB
from tony.units import Unit, format_amount, format_duration, format_number

#: Runs that are needed for a recommendation, and the run time of each.
RUNS_THAT_PROVE = 3
SECONDS_THAT_PROVE = 300.0


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number that decides whether a recommendation is reported.

    Attributes:
        meaning: one line.
    """

    name: str
    value: float
    measure: Unit
    meaning: str


#: The thresholds that most heuristics share.
PROOF = (
    Threshold("runs", RUNS_THAT_PROVE, Unit.COUNT, "minimum number of successful runs with metrics"),
    Threshold("seconds", SECONDS_THAT_PROVE, Unit.SECONDS, "minimum run time of its programs in each of them"),
)


class Heuristic(ABC):
    """A heuristic. What it recommends must never make a job fail or run slower.

    Attributes:
        name: name of the recommendation and its help page, `memory-over-asked`.
        title: a few words.
        thresholds: the table of thresholds.
        limits: name -> value of the thresholds.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    thresholds: ClassVar[tuple[Threshold, ...]]

    def __init__(self, **limits: float) -> None:
        """Create it; `limits` overrides thresholds by name."""
        self.limits = {threshold.name: threshold.value for threshold in self.thresholds}
        unknown = limits.keys() - self.limits.keys()
        if unknown:
            raise ValueError(f"{self.name} has no threshold {', '.join(sorted(unknown))}")
        self.limits.update(limits)

    @abstractmethod
    def evaluate(self, facts: Facts) -> Iterator[Recommendation]:
        """Yield its recommendations; none if the necessary data is missing."""

    # --- helpers -----------------------------------------------------------------------------------

    def find_proofs(
        self, facts: Facts, role: str, enough: Callable[[RoleFacts], bool] = lambda known: True
    ) -> list[tuple[Run, RoleFacts]]:
        """Return a role in the runs that count as proof; empty if they are too few.

        Args:
            enough: returns True if the necessary data of a role is known in a run.
        """
        found = [
            (run, known)
            for run, known in facts.find_role(role)
            if run.succeeded and known.longest >= self.limits["seconds"] and not known.out_of_memory and enough(known)
        ]
        return found if len(found) >= self.limits["runs"] else []

    def recommend(
        self,
        severity: Severity,
        says: str,
        evidence: tuple[Evidence, ...],
        *,
        role: str = "",
        saving: Saving | None = None,
        patch: tuple[SettingChange, ...] = (),
        hint: str = "",
        runs: int = 1,
    ) -> Recommendation:
        """Create a recommendation of this heuristic."""
        return Recommendation(
            heuristic=self.name,
            severity=severity,
            role=role,
            says=says,
            evidence=evidence,
            saving=saving or Saving(),
            patch=patch,
            hint=hint,
            runs=runs,
        )


def change_role_setting(role: str, name: str, old: str | int, new: str | int) -> tuple[SettingChange, ...]:
    """Return the change of one setting of a role."""
    key = SettingKey(("roles", role, name))
    return (SettingChange(key=key, old=SettingValue(old), new=SettingValue(new)),)


def round_memory(need: float) -> int:
    """Round bytes up: to 64 MiB below one GiB, to a quarter of a GiB above."""
    step = 64 * MIB if need <= GIB else 256 * MIB
    return math.ceil(need / step) * step


def grade_share(share: float, medium: float, high: float) -> Severity:
    """Return the severity for a share of the whole."""
    return Severity.HIGH if share >= high else Severity.MEDIUM if share >= medium else Severity.LOW


def format_evidence(evidence: Evidence) -> str:
    """Return `memory requested: 8g`."""
    return f"{evidence.what}: {format_amount(evidence.value, evidence.measure)}"


def format_interval(interval: Interval, unit: str) -> str:
    """Return `3 to 4.5 GB-hours`, or `3 GB-hours` if both ends look the same."""
    least, most = format_number(interval.least), format_number(interval.most)
    return f"{least if least == most else f'{least} to {most}'} {unit}"


def format_saving(saving: Saving) -> str:
    """Return the saving per run; empty if unknown."""
    return ", ".join(_parts(saving))


def _parts(saving: Saving) -> Iterable[str]:
    for interval, unit in (
        (saving.gpu_hours, "GPU-hours"),
        (saving.gb_hours, "GB-hours"),
        (saving.core_hours, "core-hours"),
    ):
        if interval:
            yield format_interval(interval, unit)
    if saving.seconds:
        least, most = (format_duration(each) for each in (saving.seconds.least, saving.seconds.most))
        yield least if least == most else f"{least} to {most}"
