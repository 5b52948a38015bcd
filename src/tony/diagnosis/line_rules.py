"""Finds the rule that a line of output meets: first those of the job and its site, then those of tony."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache

from tony.diagnosis.rule import Rule
from tony.diagnosis.rules import RULES, error_words
from tony.model.diagnosis import LineMeaning
from tony.model.line_pattern import SEARCHED_BYTES, find_words
from tony.model.own_rule import OwnRule

#: Characters of a line that are searched.
_SEARCHED_CHARACTERS = 1000
#: Seconds of searching, in one task attempt, after which a rule of the job is no longer used.
_MAX_SECONDS = 1.0
#: The word of a log level that does not end a program, near the beginning of a line that is no exception, or what
#: TensorFlow prints of a machine without a GPU. What NCCL ends with is a warning to it.
_HARMLESS = re.compile(
    r"^(?![\w.]*(?:Error|Exception)\b).{0,60}(?:\b(?:DEBUG|INFO|(?<!NCCL )WARN|WARNING|NOTICE)\b|\w*Warning: )|"
    r"^\[?[IW]\d{3,4} |^\d{4}-\d\d-\d\d [\d:.]+: [IW] |^\S+:\d+: \w*Warning: |failed call to cuInit: "
)
#: A progress bar, or a metric.
_PROGRESS = re.compile(r"\d%\||it/s|^\W*(epoch|step|loss|iter(ation)?)\b\W{0,3}\d", re.IGNORECASE)
_RULES_BY_NAME = {rule.name: rule for rule in (*RULES, *error_words.RULES)}
_OWN_SOURCE = "[[diagnosis.rules]] of the job or its site"


class LineRules:
    """The rules for the output of one task attempt.

    Args:
        own: those of the job and its site.
        measure_seconds: a clock, for the time that these take.

    Attributes:
        words: of the job's rules, in small letters: each line that one of them matches contains one of these.
        dropped: names of rules that took too long, and are no longer used.
    """

    def __init__(self, own: Sequence[OwnRule] = (), measure_seconds: Callable[[], float] = lambda: 0.0) -> None:
        self._own = [(build_own_rule(rule), re.compile(rule.pattern)) for rule in own]
        self._seconds: dict[str, float] = {}
        self._measure_seconds = measure_seconds
        self.words = tuple(dict.fromkeys(word for rule in own for word in find_words(rule.pattern)))
        self.dropped: list[str] = []

    def find(self, line: str) -> Rule | None:
        """Return the first rule that matches a line; None if none does, or one of tony's does in a mere warning."""
        return self._find_own(line[:SEARCHED_BYTES]) or find_rule(line)

    def _find_own(self, line: str) -> Rule | None:
        for rule, pattern in self._own:
            started_at = self._measure_seconds()
            found = pattern.search(line)
            spent = self._seconds.get(rule.name, 0.0) + self._measure_seconds() - started_at
            self._seconds[rule.name] = spent
            if spent > _MAX_SECONDS:
                self._own = [each for each in self._own if each[0] is not rule]
                self.dropped.append(rule.name)
            if found:
                return rule
        return None


def find_rule(line: str) -> Rule | None:
    """Return the first rule of tony that matches a line; None if none does, or the line is only a warning."""
    line = line[:_SEARCHED_CHARACTERS]
    found = next((rule for rule, pattern in _compile_rules() if pattern.search(line)), None)
    return None if found and is_harmless(line) else found


def find_words_rule(line: str) -> Rule | None:
    """Return the rule for the words of an error of which its own rule does not say whether it may pass."""
    return next((rule for rule, pattern in _compile_words() if pattern.search(line)), None)


def is_harmless(line: str) -> bool:
    """Return True if a line is a warning, or of a lower log level."""
    return _HARMLESS.search(line) is not None


def may_be_error(line: str) -> bool:
    """Return True if a line that no rule matches may be a message about an error."""
    return bool(line) and not is_harmless(line) and not _PROGRESS.search(line)


def get_rule(name: str, own: Sequence[OwnRule] = ()) -> Rule | None:
    """Return the rule with this name; None for one of another version of tony, or of another job."""
    found = _RULES_BY_NAME.get(name)
    return found or next((build_own_rule(rule) for rule in own if rule.full_name == name), None)


def build_own_rule(rule: OwnRule) -> Rule:
    """Return a rule of a job or site as one like those of tony."""
    return Rule(
        name=rule.full_name,
        pattern=rule.pattern,
        kind=rule.kind,
        meaning=LineMeaning(rule.meaning.value),
        retry=rule.retry,
        advice=rule.advice,
        source=_OWN_SOURCE,
        examples=(),
        is_own=True,
    )


@cache
def _compile_rules() -> tuple[tuple[Rule, re.Pattern[str]], ...]:
    return tuple((rule, re.compile(rule.pattern)) for rule in RULES)


@cache
def _compile_words() -> tuple[tuple[Rule, re.Pattern[str]], ...]:
    return tuple((rule, re.compile(rule.pattern)) for rule in error_words.RULES)
