"""Ctrl-C between the moment in which a job is handed over and that in which somebody follows it."""

from __future__ import annotations

import signal
from types import FrameType

#: Signals beside Ctrl-C that ask a program to end.
ENDING = (signal.SIGTERM, signal.SIGHUP)


class InterruptedBySignal(KeyboardInterrupt):
    """As Ctrl-C, for the other signals that ask for our end."""

    def __init__(self, number: int) -> None:
        """Which signal."""
        self.number = number
        super().__init__()


def raise_interrupt(number: int, frame: FrameType | None) -> None:
    """The handler that raises it."""
    raise InterruptedBySignal(number)


class SignalGuard:
    """Counts how often Ctrl-C was pressed, until whoever follows the job heeds it.

    Attributes:
        tied: the job is to end with us: the other signals mean what Ctrl-C does.
        pressed: how often it was.
        ended_by: of a tied one the last signal; 0 if none came.
    """

    def __init__(self, *, tied: bool = False) -> None:
        """Nothing is counted yet."""
        self.tied = tied
        self.pressed = 0
        self.ended_by = 0

    def begin(self, pressed: int = 0, ended_by: int = 0) -> None:
        """From now on Ctrl-C is counted and does nothing else. Who ignores it still does.

        Args:
            pressed: how often it was before.
            ended_by: by which signal.
        """
        self.pressed += pressed
        self.note(ended_by)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._press)
        for number in ENDING if self.tied else ():
            if signal.getsignal(number) in (signal.SIG_DFL, raise_interrupt):
                signal.signal(number, self._press)

    def note(self, number: int) -> None:
        """A signal came."""
        if self.tied and number:
            self.ended_by = number

    def _press(self, number: int, frame: FrameType | None) -> None:
        self.pressed += 1
        self.note(number)
