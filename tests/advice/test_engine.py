"""The engine: what is said, in which order, and what becomes of heuristics that fail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.advice.fleet import facts
from tests.advice.jobs import PLANTED, memory_over_asked, parameter_servers
from tests.facts import mention_each
from tony.advice import engine
from tony.advice.engine import advise, combine_changes
from tony.advice.facts import Facts
from tony.advice.heuristic import Heuristic
from tony.advice.heuristics.memory import MemoryOverRequested
from tony.advice.recommendation import Recommendation, Saving, SettingChange, SettingKey, SettingValue, Severity


class Broken(Heuristic):
    """Falls over."""

    name = "broken"
    title = "t"
    thresholds = ()

    def evaluate(self, facts: Facts) -> Iterator[Recommendation]:
        yield self.recommend(Severity.LOW, "begun", ())
        raise ZeroDivisionError("by zero")


class Point:
    """An entry point."""

    def __init__(self, name: str, value: object) -> None:
        self.name, self.value, self._made = name, "them:Thing", value

    def load(self) -> object:
        if isinstance(self._made, Exception):
            raise self._made
        return self._made


def over_asked() -> Facts:
    """A job that asks for too much memory."""
    return facts(memory_over_asked(Random(0)), Random(0))


def test_one_that_fails_is_named_and_the_others_go_on() -> None:
    """What another package does is no reason to say nothing."""
    advice = advise(over_asked(), [Broken(), MemoryOverRequested()])
    assert ["memory-over-asked"] == [each.heuristic for each in advice.findings]
    assert ("the heuristic broken failed: ZeroDivisionError: by zero",) == advice.problems


def test_heuristics_of_other_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that can be loaded take part; of the others it is said why not."""
    points = [Point("fine", Broken), Point("gone", ImportError("no module")), Point("odd", dict)]
    monkeypatch.setattr(engine, "entry_points", lambda group: points)
    found, problems = engine.load_heuristics()
    assert "broken" == found[-1].name
    assert mention_each(
        list(problems), ("gone (them:Thing)", "no module"), ("odd (them:Thing)", "tony.advice.heuristic.Heuristic")
    )


def test_thresholds_can_be_others() -> None:
    """By name; a name that there is not is an error."""
    assert not list(MemoryOverRequested(runs=100).evaluate(over_asked()))
    with pytest.raises(ValueError, match="has no threshold frobs"):
        MemoryOverRequested(frobs=1)


def recommendation(severity: Severity, *changes: SettingChange) -> Recommendation:
    return Recommendation(
        heuristic="x", severity=severity, role="", says="", evidence=(), saving=Saving(), patch=tuple(changes)
    )


def setting_change(key: str, old: str, new: str) -> SettingChange:
    return SettingChange(key=SettingKey.parse(key), old=SettingValue.parse(old), new=SettingValue.parse(new))


def test_incompatible_changes_are_separate_recommendations() -> None:
    """Fewer servers have more to do each, so less memory for them is left to another run; more cores can be
    combined."""
    memory = setting_change("roles.ps.memory", '"8g"', '"2g"')
    others = setting_change("roles.worker.memory", '"8g"', '"2g"')
    fewer = setting_change("roles.ps.instances", "4", "2")
    cores = setting_change("roles.worker.vcores", "2", "4")
    high, low = recommendation(Severity.HIGH, fewer, cores), recommendation(Severity.LOW, memory, others)
    assert ((fewer, cores), (memory, others)) == combine_changes([high, low])
    assert ((memory, others), ()) == combine_changes([low])
    more = replace(others, new=SettingValue("16g"))
    assert ((cores, more), ()) == combine_changes([recommendation(Severity.HIGH, cores, more)])
    fewer_cores = setting_change("roles.worker.vcores", "4", "2")
    assert ((fewer_cores, others), ()) == combine_changes([recommendation(Severity.HIGH, fewer_cores, others)])


def test_servers_that_are_too_many_and_too_large() -> None:
    """Both are told; at once only their number is proposed."""
    advice = advise(facts(parameter_servers(Random(1)), Random(1)))
    assert {"parameter-servers", "memory-over-asked", "cpu-over-asked"} == {each.heuristic for each in advice.findings}
    assert ["roles.ps.instances"] == [str(change.key) for change in advice.patch]
    assert {"roles.ps.memory", "roles.ps.vcores"} == {str(change.key) for change in advice.later}


def test_missing_facts_are_reported() -> None:
    plan = memory_over_asked(Random(0))
    uses = {name: replace(use, measured=False) for name, use in plan.uses.items()}
    advice = advise(facts(replace(plan, uses=uses, step=None, runs=1), Random(0)))
    assert () == advice.findings
    assert [
        "Resource use: there are no metrics.",
        "Steps: none were reported with tony.progress.",
        "Checkpoints: none were reported with tony.checkpoint.",
        "Trend checks need 3 successful runs; this job has 1.",
    ] == list(advice.unknown)


def test_every_heuristic_has_a_help_page() -> None:
    """With its table; the index names all of them."""
    folder = Path(__file__).resolve().parents[2] / "docs" / "advice"
    index = (folder / "README.md").read_text()
    assert {f"{name}.md" for name in PLANTED} == {page.name for page in folder.glob("*.md")} - {"README.md"}
    for name in PLANTED:
        assert "| threshold | value | meaning |" in (folder / f"{name}.md").read_text()
        assert f"({name}.md)" in index
