"""Ctrl-C between the moment in which a job is handed over and that in which somebody follows it."""

from __future__ import annotations

import signal


class EarlyInterrupts:
    """Counts how often Ctrl-C was pressed, until whoever follows the job heeds it.

    Attributes:
        pressed: how often it was.
    """

    def __init__(self) -> None:
        """Nothing is counted yet."""
        self.pressed = 0

    def begin(self, pressed: int = 0) -> None:
        """From now on Ctrl-C is counted and does nothing else. Who ignores it still does.

        Args:
            pressed: how often it was before.
        """
        self.pressed += pressed
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._press)

    def _press(self, number: int, frame: object) -> None:
        self.pressed += 1
