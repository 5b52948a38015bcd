"""Denied requests of a client that has the right to them.

For a moment after its start an API server does not know all roles, and denies what it allows a second later.
"""

from __future__ import annotations

from tony import clock

#: Seconds after which a denial is believed.
_BELIEVED_SECONDS = 20.0
#: Seconds without a denial, after which the next one has another reason.
_PASSED_SECONDS = 60.0


class Denials:
    """The denials that one client has seen."""

    def __init__(self) -> None:
        self._first_at = self._last_at = float("-inf")

    def are_permanent(self) -> bool:
        """Note a denial; return True if requests have been denied for so long that this will not pass."""
        now = clock.monotonic()
        if now - self._last_at > _PASSED_SECONDS:
            self._first_at = now
        self._last_at = now
        return now - self._first_at >= _BELIEVED_SECONDS
