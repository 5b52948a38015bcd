"""What a heuristic is: a table of thresholds, a help text, and a look at facts."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import ClassVar

from tony.advice.facts import Facts, RoleFacts, Run
from tony.advice.recommendation import Evidence, Finding, Measure, Saving, SettingChange, Severity
from tony.dataclass import dataclass
from tony.model.job_spec import GIB, MIB
from tony.units import exact_size

#: Runs that prove what a job needs, and how long its programs must have run in each: less is silent.
RUNS_THAT_PROVE, SECONDS_THAT_PROVE = 3, 300.0


@dataclass(frozen=True, slots=True)
class Threshold:
    """One number that decides whether something is said.

    Attributes:
        meaning: for people, one line.
    """

    name: str
    value: float
    measure: Measure
    meaning: str


#: The two that most heuristics share.
PROOF = (
    Threshold("runs", RUNS_THAT_PROVE, Measure.COUNT, "least number of succeeded runs with metrics"),
    Threshold("seconds", SECONDS_THAT_PROVE, Measure.SECONDS, "least running time of its programs in each of them"),
)


class Heuristic(ABC):
    """One thing to look for. Careful: what it proposes must never make a job fail, nor slower.

    Attributes:
        name: of the finding and its help page, `memory-over-asked`.
        title: what it is about, a few words.
        about: the help page between title and table, Markdown: what it means, and what to change.
        thresholds: its table.
        limits: their values by name.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    about: ClassVar[str]
    thresholds: ClassVar[tuple[Threshold, ...]]

    def __init__(self, **limits: float) -> None:
        """Other values than the table's, by name."""
        self.limits = {each.name: each.value for each in self.thresholds}
        unknown = limits.keys() - self.limits.keys()
        if unknown:
            raise ValueError(f"{self.name} has no threshold {', '.join(sorted(unknown))}")
        self.limits.update(limits)

    @abstractmethod
    def look(self, facts: Facts) -> Iterator[Finding]:
        """What it finds: nothing where what it needs is not known."""

    # --- what most of them need -----------------------------------------------------------------------------------

    def proofs(
        self, facts: Facts, role: str, enough: Callable[[RoleFacts], bool] = lambda known: True
    ) -> list[tuple[Run, RoleFacts]]:
        """A role in the runs that prove something; empty if they are too few.

        Args:
            enough: whether what is needed is known of a role in a run.
        """
        found = [
            (run, known)
            for run, known in facts.of(role)
            if run.succeeded and known.longest >= self.limits["seconds"] and not known.out_of_memory and enough(known)
        ]
        return found if len(found) >= self.limits["runs"] else []

    def finding(
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
    ) -> Finding:
        """One of its own."""
        return Finding(
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


def of_role(role: str, name: str, old: str, new: str) -> tuple[SettingChange, ...]:
    """The change of one value of a role."""
    return (SettingChange(key=f"roles.{role}.{name}", old=old, new=new),)


def size(value: int) -> str:
    """A size as in a job file."""
    return f'"{exact_size(value)}"'


def rounded_memory(need: float) -> int:
    """Bytes as people write them, never less: whole 64 MiB below one GiB, quarters of a GiB above."""
    step = 64 * MIB if need <= GIB else 256 * MIB
    return math.ceil(need / step) * step


def severity_of_share(share: float, medium: float, high: float) -> Severity:
    """By how much of the whole it is about."""
    return Severity.HIGH if share >= high else Severity.MEDIUM if share >= medium else Severity.LOW
