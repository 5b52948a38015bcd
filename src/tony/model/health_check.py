"""The result of one check of the environment that jobs are submitted from."""

from __future__ import annotations

from enum import Enum

from tony.model.value_class import value_class


class Health(Enum):
    """Result of a check."""

    OK = "ok"
    MISSING = "missing"
    UNKNOWN = "unknown"  #: it could not be determined


@value_class
class HealthCheck:
    """One thing that jobs use.

    Attributes:
        name: the thing.
        state: whether it is there.
        detail: what was found.
        cost: what does not work without it; empty if it is there.
        remedy: what to do; empty if it is there.
        required: without it, jobs fail that are submitted in the usual way.
    """

    name: str
    state: Health
    detail: str
    cost: str = ""
    remedy: str = ""
    required: bool = False

    @property
    def is_broken(self) -> bool:
        """Return True if something is missing that is required."""
        return self.required and self.state is Health.MISSING
