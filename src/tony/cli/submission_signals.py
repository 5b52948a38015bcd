"""Ctrl-C and termination signals during a submission, and until the client follows the job."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from tony.errors import InterruptedBySignal

#: Signals other than SIGINT that ask a process to exit.
TERMINATION_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def raise_interrupt(number: int, frame: FrameType | None) -> None:
    """Raise `InterruptedBySignal`; a signal handler."""
    raise InterruptedBySignal(number)


class SignalGuard:
    """Counts Ctrl-C until the job is followed, which then handles them.

    Attributes:
        tied: the job is to end with this process: the termination signals act like Ctrl-C.
        pressed: number of Ctrl-C so far.
        ended_by: the last signal if `tied`; 0 if there was none.
        left_by: the termination signal that ends this process and not the job; 0 if there was none.
    """

    def __init__(self, *, tied: bool = False) -> None:
        self.tied = tied
        self.pressed = 0
        self.ended_by = 0
        self.left_by = 0

    def begin(self, pressed: int = 0, ended_by: int = 0) -> None:
        """Count Ctrl-C from now on, without any other effect. Signals that are ignored stay ignored.

        Args:
            pressed: number of Ctrl-C before.
            ended_by: the signal before.
        """
        self.pressed += pressed
        self.note(ended_by)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._press)
        for number in TERMINATION_SIGNALS if self.tied else ():
            if signal.getsignal(number) in (signal.SIG_DFL, raise_interrupt):
                signal.signal(number, self._press)

    def defer_termination(self) -> None:
        """Let the termination signals wait until the job is followed, so that the user is told that it continues."""
        for number in TERMINATION_SIGNALS:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, self._leave)

    def note(self, number: int) -> None:
        """Remember the signal if the job is tied to this process."""
        if self.tied and number:
            self.ended_by = number

    def _leave(self, number: int, frame: FrameType | None) -> None:
        self.left_by = number

    def _press(self, number: int, frame: FrameType | None) -> None:
        self.pressed += 1
        self.note(number)


@contextmanager
def clean_exit_on_signals() -> Iterator[None]:
    """Handle SIGTERM and SIGHUP like Ctrl-C, so that partial results are removed; ignored signals stay ignored."""
    before = {number: signal.getsignal(number) for number in TERMINATION_SIGNALS}
    handled = [number for number, handler in before.items() if handler is signal.SIG_DFL]
    for number in handled:
        signal.signal(number, raise_interrupt)
    try:
        yield
    finally:
        for number in handled:
            if signal.getsignal(number) is raise_interrupt:  # not replaced by another handler
                signal.signal(number, before[number])
