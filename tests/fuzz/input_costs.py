"""What one input may cost: processor time and memory, measured while it is worked on."""

from __future__ import annotations

import resource
import signal
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

#: Bytes by which the whole process may grow beside, where memory is not measured exactly.
_ROOM = 64 << 20


class TooSlow(BaseException):
    """An input kept us busy for longer than any input of its size should. No `except Exception` swallows it."""


class TooMuchMemoryError(AssertionError):
    """An input made us hold more memory than any input of its size should."""


@contextmanager
def bounded(*, seconds: float, memory: int, exact: bool = True) -> Iterator[None]:
    """Ends what takes too long, and complains of what took too much. In the main thread only.

    Args:
        seconds: of processor time, so that a loaded machine makes no difference.
        memory: bytes that may be taken at the worst moment, beyond what was there before.
        exact: count every object of Python's; else only notice when the process grows beyond what it ever was.

    Raises:
        TooSlow: in the middle of whatever runs when the time is up.
        TooMuchMemoryError: afterwards.
    """
    before = signal.signal(signal.SIGPROF, _too_slow)
    began = time.process_time()
    with _counted(memory) if exact else _grown(memory + _ROOM):
        # Again and again: a signal that comes inside a callback from C may be swallowed.
        signal.setitimer(signal.ITIMER_PROF, seconds, 0.5)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)
    if (took := time.process_time() - began) > seconds:
        raise TooSlow(f"{took:.2f} s; {seconds:.2f} s are allowed")


@contextmanager
def _counted(most: int) -> Iterator[None]:
    tracing = tracemalloc.is_tracing()
    if not tracing:
        tracemalloc.start()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    try:
        yield
    finally:
        peak = tracemalloc.get_traced_memory()[1] - held
        if not tracing:
            tracemalloc.stop()
    _judge(peak, most)


@contextmanager
def _grown(most: int) -> Iterator[None]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    _judge((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024, most)


def _judge(peak: int, most: int) -> None:
    if peak > most:
        raise TooMuchMemoryError(f"{peak:,} bytes at the worst moment; {most:,} are allowed")


def _too_slow(number: int, frame: FrameType | None) -> None:
    raise TooSlow("the time is up")
