"""Finds the rule that a line of output meets."""

from __future__ import annotations

import re
from functools import cache

from tony.diagnosis.rule import Rule
from tony.diagnosis.rules import RULES

#: Characters of a line that are searched.
_SEARCHED_CHARACTERS = 1000
#: The word of a log level that does not end a program, near the beginning of a line that is no exception, or what
#: TensorFlow prints of a machine without a GPU. What NCCL ends with is a warning to it.
_HARMLESS = re.compile(
    r"^(?![\w.]*(?:Error|Exception)\b).{0,60}(?:\b(?:DEBUG|INFO|(?<!NCCL )WARN|WARNING|NOTICE)\b|\w*Warning: )|"
    r"^\[?[IW]\d{4} |^\d{4}-\d\d-\d\d [\d:.]+: [IW] |^\S+:\d+: \w*Warning: |failed call to cuInit: "
)
_RULES_BY_NAME = {rule.name: rule for rule in RULES}


def find_rule(line: str) -> Rule | None:
    """Return the first rule that matches a line; None if none does, or the line is only a warning."""
    line = line[:_SEARCHED_CHARACTERS]
    found = next((rule for rule, pattern in _compile_rules() if pattern.search(line)), None)
    return None if found and is_harmless(line) else found


def is_harmless(line: str) -> bool:
    """Return True if a line is a warning, or of a lower log level."""
    return _HARMLESS.search(line) is not None


def get_rule(name: str) -> Rule | None:
    """Return the rule with this name; None for one of another version of tony."""
    return _RULES_BY_NAME.get(name)


@cache
def _compile_rules() -> tuple[tuple[Rule, re.Pattern[str]], ...]:
    return tuple((rule, re.compile(rule.pattern)) for rule in RULES)
