"""Every rule matches its examples and none of its traps."""

from __future__ import annotations

import pytest

from tony.diagnosis.line_rules import find_rule, find_words_rule
from tony.diagnosis.output_scanner import OutputScanner
from tony.diagnosis.rule import Rule
from tony.diagnosis.rules import RULES, error_words, python
from tony.diagnosis.rules.programs import LAST_LINE

EXAMPLES = [pytest.param(rule, text, id=f"{rule.name}-{n}") for rule in RULES for n, text in enumerate(rule.examples)]
TRAPS = [pytest.param(rule, text, id=f"{rule.name}-{n}") for rule in RULES for n, text in enumerate(rule.traps)]


WORDS = [pytest.param(rule, id=rule.name) for rule in error_words.RULES]


def test_names_are_unique() -> None:
    names = [rule.name for rule in (*RULES, *error_words.RULES)]
    assert len(names) == len(set(names))


def test_each_rule_has_a_source_an_example_and_a_trap() -> None:
    lacking = [rule.name for rule in (*RULES, *error_words.RULES) if not (rule.source and rule.examples and rule.traps)]
    assert lacking == [LAST_LINE]  # it has no pattern


@pytest.mark.parametrize("rule", WORDS)
def test_words_tell_the_kind_of_an_error_that_only_a_rule_for_any_error_matches(rule: Rule) -> None:
    assert [find_words_rule(text) for text in rule.examples] == [rule] * len(rule.examples)
    assert rule not in [find_words_rule(text) for text in rule.traps]


@pytest.mark.parametrize(("rule", "text"), EXAMPLES)
def test_an_example_meets_its_rule_before_any_other(rule: Rule, text: str) -> None:
    found = find_rule(text)
    assert found is not None
    assert found.name == rule.name


@pytest.mark.parametrize(("rule", "text"), EXAMPLES)
def test_the_scanner_finds_an_example_in_the_output(rule: Rule, text: str) -> None:
    """Its search for words passes over no line of which there is a rule."""
    scanner = OutputScanner("err")
    before = "Traceback (most recent call last):\n  x()\n" if rule in python.RULES else "epoch 1\nepoch 2\n"
    scanner.feed(f"{before * 500}{text}\n".encode(), 0.0)
    assert (scanner.found[-1].number, scanner.found[-1].rule.name) == (1001, rule.name)


@pytest.mark.parametrize(("rule", "text"), TRAPS)
def test_a_trap_does_not_meet_the_rule(rule: Rule, text: str) -> None:
    found = find_rule(text)
    assert found is None or found.name != rule.name
