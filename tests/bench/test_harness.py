"""Rounds in turning order, medians, ratios, targets."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.harness import CPU, Figures, Line, Rounds, at_least, at_most, at_most_times, interleaved


def _rounds() -> Rounds:
    tony = [{"wall": wall, CPU: 1.0} for wall in (3.0, 1.0, 8.0)]
    bare = [{"wall": wall, "last": 2 * wall} for wall in (1.0, 1.0, 2.0)]
    return Rounds({"tony": tony, "bare": bare})


def test_every_way_runs_once_a_round_and_the_first_round_does_not_count() -> None:
    """Each round begins with another way, so that none always comes after the same one."""
    seen: list[str] = []

    def way(name: str) -> Callable[[], Figures]:
        def run() -> Figures:
            seen.append(name)
            return {"number": len(seen)}

        return run

    rounds = interleaved({"a": way("a"), "b": way("b")}, 2)
    assert ["b", "a", "a", "b", "b", "a"] == seen
    assert [3, 6] == rounds.values("a", "number")
    assert [4, 5] == rounds.values("b", "number")


def test_a_line_has_medians_and_the_median_of_the_rounds_own_ratios() -> None:
    """A machine that is slow for one round bends neither."""
    line = _rounds().line("start", "tony", "wall", against="bare", target=at_most_times(3))
    assert (3.0, 1.0, 8.0) == (line.value, line.low, line.high)
    assert (1.0, 1.0, None) == (line.reference, line.cpu, line.reference_cpu)
    assert (3.0, True) == (line.ratio, line.met)


def test_a_figure_may_be_compared_with_another_one() -> None:
    assert 1.5 == _rounds().line("start", "tony", "wall", against="bare", against_figure="last").ratio


def test_a_value_too_short_to_measure_has_no_ratio() -> None:
    """CPU time is counted in ticks: a small sample of `cat` may take none."""
    rounds = Rounds({"tony": [{"load": 10.0}], "cat": [{"load": 0.0}]})
    line = rounds.line("load", "tony", "load", against="cat", target=at_most(30))
    assert (0.0, None, True) == (line.reference, line.ratio, line.met)


@pytest.mark.parametrize(
    ("line", "met"),
    [
        (Line(what="x", value=5.0, target=at_most(5.0)), True),
        (Line(what="x", value=5.1, target=at_most(5.0)), False),
        (Line(what="x", value=5.0, target=at_least(5.1)), False),
        (Line(what="x", value=5.0, ratio=7.0, target=at_most_times(6.0)), False),
        (Line(what="x", value=5.0), None),
        (Line.missing("x", "no torch"), None),
    ],
)
def test_a_target_is_met_or_not(line: Line, met: bool | None) -> None:
    """By our number or by the ratio; without a number or a target nothing is said."""
    assert met is line.met
