"""Rules of a job or site for lines of output: `[[diagnosis.rules]]`."""

from __future__ import annotations

from tony.model.diagnosis import FailureKind
from tony.model.setting_choices import RuleMeaning
from tony.model.value_class import value_class

#: Part of a name of a rule in reports: those of tony have no dots.
OWN_RULES = "diagnosis.rules."


@value_class
class OwnRule:
    """A rule of a job or site.

    Attributes:
        pattern: a regular expression that `line_pattern` accepts.
        kind: the kind of failure that a matching line shows.
        retry: the same program may succeed the next time.
        advice: what to do, one sentence without a full stop; may be empty.
    """

    name: str
    pattern: str
    kind: FailureKind
    meaning: RuleMeaning = RuleMeaning.CAUSE
    retry: bool = False
    advice: str = ""

    @property
    def full_name(self) -> str:
        """Return its name in reports, which is its key in job files."""
        return f"{OWN_RULES}{self.name}"
