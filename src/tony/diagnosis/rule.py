"""One rule: a line of output that matches it has a kind, a meaning and an advice."""

from __future__ import annotations

from dataclasses import dataclass

from tony.model.diagnosis import FailureKind, LineMeaning


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule for lines of output.

    Attributes:
        name: a word with hyphens; `tony why` shows it.
        pattern: a regular expression, searched in the line.
        retry: the same program may succeed the next time; None: the line alone does not say.
        advice: what to do, one sentence without a full stop; may be empty.
        source: where the text comes from: a file of the upstream project, or its documentation.
        examples: lines that match.
        traps: lines that resemble them and do not match.
        is_own: it is a rule of the job or its site.
    """

    name: str
    pattern: str
    kind: FailureKind
    meaning: LineMeaning = LineMeaning.CAUSE
    retry: bool | None = False
    advice: str = ""
    source: str
    examples: tuple[str, ...]
    traps: tuple[str, ...] = ()
    is_own: bool = False
