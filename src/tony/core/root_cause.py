"""Select the root cause of a job among several failures."""

from __future__ import annotations

from dataclasses import replace

from tony.core.state import State
from tony.model.job_report import Failure, FailureCause

#: Causes that describe the end of one task's program: the earliest of these is the root cause.
_PROGRAM_CAUSES = frozenset(
    {
        FailureCause.PROGRAM,
        FailureCause.MEMORY,
        FailureCause.LAUNCH,
        FailureCause.LIMIT,
        FailureCause.LOST,
        FailureCause.PORT_COLLISION,
        FailureCause.SILENT,
    }
)
#: Maximum lines of `others` in a failure; ten thousand tasks may fail at once.
_MAX_OTHER_FAILURES = 20


def select_root_cause(state: State, decided: Failure) -> Failure:
    """Return the root cause: the earliest failure of this session, with the others listed in it.

    When a task dies, its peers fail with their own errors within a second or two, and reports may overtake each other;
    so the failure reported first is not always the one that happened first. Limits (timeouts, kills) stay as decided.
    """
    first = decided
    if decided.cause in _PROGRAM_CAUSES:
        first = min((f for f in state.failures if f.cause in _PROGRAM_CAUSES), key=lambda f: f.at, default=decided)
    others = [f.reason for f in state.failures if f is not first]
    more = len(others) - _MAX_OTHER_FAILURES
    lines = others[:_MAX_OTHER_FAILURES] + ([f"and {more} more"] if more > 0 else [])
    return replace(first, others=tuple(lines))
