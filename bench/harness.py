"""Interleaved runs, medians, lines with targets: what every row of the bench shares. See `bench/__init__.py`."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

#: What one call of a way answers: figure -> value.
Figures = Mapping[str, float]
#: The figure that every line of a way shows next to its own.
CPU = "cpu"


class CannotRunError(Exception):
    """This row cannot be measured here; the text says why."""


class Unit(Enum):
    """What a line's numbers are."""

    SECONDS = "seconds"
    BYTES = "bytes"
    PER_SECOND = "per second"
    PERCENT = "percent"
    COUNT = "count"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A number to reach.

    Attributes:
        bound: in the line's unit, or a factor.
        ratio: the bound is on the ratio, not on our own number.
        least: reached from `bound` upwards instead of downwards.
    """

    bound: float
    ratio: bool = False
    least: bool = False

    def met(self, value: float) -> bool:
        """Whether a value reaches it."""
        return value >= self.bound if self.least else value <= self.bound


def at_most(bound: float) -> Target:
    """Our own number must not be above `bound`."""
    return Target(bound=bound)


def at_least(bound: float) -> Target:
    """Our own number must not be below `bound`."""
    return Target(bound=bound, least=True)


def at_most_times(factor: float) -> Target:
    """Our own number must not be more than `factor` times the one that it is compared with."""
    return Target(bound=factor, ratio=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the table.

    Attributes:
        value: the median, in `unit`; None if it could not be measured, and `reason` says why.
        low, high: the least and the greatest of the rounds.
        cpu, reference_cpu: median seconds of user and system time, all processes together.
        against: what `reference` is of.
        ratio: value / reference, the median of the rounds' own.
    """

    what: str
    unit: Unit = Unit.SECONDS
    value: float | None = None
    low: float | None = None
    high: float | None = None
    cpu: float | None = None
    against: str = ""
    reference: float | None = None
    reference_cpu: float | None = None
    ratio: float | None = None
    target: Target | None = None
    reason: str = ""

    @classmethod
    def missing(cls, what: str, reason: str) -> Line:
        """A line that could not be measured."""
        return cls(what=what, reason=reason)

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None without a target, or without a number."""
        value = self.ratio if self.target and self.target.ratio else self.value
        return None if self.target is None or value is None else self.target.met(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a row found out.

    Attributes:
        notes: sentences below its table: what was compared, how often, what the numbers leave out.
    """

    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rounds:
    """What `interleaved` saw: way -> its figures, round by round."""

    samples: Mapping[str, Sequence[Figures]] = field(default_factory=dict)

    def values(self, way: str, figure: str) -> list[float]:
        """One figure of one way, round by round."""
        return [sample[figure] for sample in self.samples[way]]

    def median(self, way: str, figure: str) -> float:
        """The median over the rounds."""
        return statistics.median(self.values(way, figure))

    def ratio(self, way: str, figure: str, other: str, other_figure: str) -> float | None:
        """The median of the rounds' own ratios; None where a round of the other was too short to be measured (0)."""
        pairs = list(zip(self.values(way, figure), self.values(other, other_figure), strict=True))
        if any(reference == 0 for _, reference in pairs):
            return None
        return statistics.median(value / reference for value, reference in pairs)

    def line(
        self,
        what: str,
        way: str,
        figure: str,
        *,
        against: str | None = None,
        against_figure: str | None = None,
        unit: Unit = Unit.SECONDS,
        target: Target | None = None,
    ) -> Line:
        """The line of one figure, against the same figure (or another) of another way."""
        values = self.values(way, figure)
        line = Line(
            what=what,
            unit=unit,
            value=statistics.median(values),
            low=min(values),
            high=max(values),
            cpu=self._cpu(way) if unit is Unit.SECONDS else None,
            target=target,
        )
        if against is None:
            return line
        other = against_figure or figure
        return replace(
            line,
            against=against,
            reference=self.median(against, other),
            reference_cpu=self._cpu(against) if unit is Unit.SECONDS else None,
            ratio=self.ratio(way, figure, against, other),
        )

    def _cpu(self, way: str) -> float | None:
        return self.median(way, CPU) if all(CPU in sample for sample in self.samples[way]) else None


def interleaved(ways: Mapping[str, Callable[[], Figures]], rounds: int, *, discard: int = 1) -> Rounds:
    """Calls every way once per round, each round beginning with the next one.

    Args:
        ways: name -> what runs it once and answers its figures.
        discard: rounds that come first and are not counted: caches warm up.
    """
    names = list(ways)
    samples: dict[str, list[Figures]] = {name: [] for name in names}
    for number in range(-discard, rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            figures = ways[name]()
            if number >= 0:
                samples[name].append(figures)
    return Rounds(samples)
