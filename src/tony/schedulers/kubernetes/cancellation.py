"""Stops a submission whose client was interrupted: it runs in a thread, which cannot be cancelled."""

from __future__ import annotations

import threading

from tony.errors import SchedulerError


class Cancellation(threading.Event):
    """Set when the submission is to stop."""

    def check(self) -> None:
        """Raise SchedulerError if the submission is to stop."""
        if self.is_set():
            raise SchedulerError("the submission was interrupted")
