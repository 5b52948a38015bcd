"""A line of output that a rule matches."""

from __future__ import annotations

from dataclasses import dataclass

from tony.diagnosis.rule import Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleMatch:
    """A line that a rule matches.

    Attributes:
        at: seconds, of any clock.
        follows: it is an exception raised while an earlier one, which was found too, was handled.
        was_caught: it is an exception that the program logged, or that Python ignored.
        is_exception: it ends a traceback.
        code_place: file, line, function and source line of the user's code that raised it; empty if it is no exception.
    """

    stream: str
    number: int
    at: float
    text: str
    rule: Rule
    follows: bool
    was_caught: bool
    is_exception: bool = False
    code_place: str = ""
