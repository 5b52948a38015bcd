"""Reports the progress of a program: `tony.progress(step, total, loss=...)` and `with tony.checkpoint(step):`.

Both do nothing where tony does not run the program; neither ever blocks, nor raises an exception of its own. Any
process and any thread of the program may call them.

Reports are datagrams to the executor, whose socket is named in TONY_PROGRESS:

    p\t<step>\t<total or nothing>[\t<name>=<number>]...        progress
    c\t<step>\t<end time, CLOCK_BOOTTIME>\t<seconds>           a checkpoint

Standard library only, for Python 3.7 and newer: see `tony.python_hooks`.
"""

from __future__ import annotations

import os
import time
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Deque, Dict, Optional, Tuple, Type  # noqa: UP035 - for old Pythons

if TYPE_CHECKING:
    import socket

__all__ = ["checkpoint", "progress"]

_VARIABLE = "TONY_PROGRESS"
#: Rate limit: the executor needs no more values per second.
_PER_SECOND = 20.0
#: Values that may be sent at once.
_BURST = 4.0
#: Bytes of a datagram.
_MAX_DATAGRAM_BYTES = 4096
#: Checkpoints that wait for room, and at the exit the last progress.
_MAX_WAITING = 64
#: Maximum bytes of a socket's path (kernel limit).
_MAX_PATH_BYTES = 107
#: Seconds that an exiting process waits for room for its last reports.
_EXIT_TIMEOUT_SECONDS = 0.2
#: The clock of `tony.clock`.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class _Reporter:
    """The connection to the executor. Of its state only waiting reports must not be lost."""

    def __init__(self) -> None:
        self.name = os.environ.get(_VARIABLE, "")
        self.socket: Optional[socket.socket] = None  # noqa: UP045
        self.socket_identity: Optional[Tuple[int, int]] = None  # noqa: UP006, UP045
        self.waiting: Deque[bytes] = deque(maxlen=_MAX_WAITING)  # noqa: UP006
        #: The newest progress, if it could not be sent.
        self.delayed: Optional[Tuple[float, Optional[float], Dict[str, float]]] = None  # noqa: UP006, UP045
        self.reset()

    def reset(self) -> None:
        """Reset the state, also after a fork: inherited reports are the parent's to send."""
        self.waiting.clear()
        self.delayed = None
        self.registered = False  # a child of multiprocessing forgets what its parent registered
        self.allowed = _BURST
        self.at = 0.0

    def is_permitted(self) -> bool:
        """Return True if the rate limit permits another value."""
        now = time.monotonic()
        self.allowed = min(_BURST, self.allowed + (now - self.at) * _PER_SECOND)
        self.at = now
        if self.allowed < 1.0:
            return False
        self.allowed -= 1.0
        return True

    def send(self, data: bytes) -> bool:
        """Send a datagram; return False if there is no room or no executor."""
        try:
            if self.socket is not None and _identity(self.socket.fileno()) != self.socket_identity:
                # The program has closed this descriptor; if the number is in use again, it belongs to the program.
                self.socket.detach()
                self.socket = None
            if self.socket is None:
                self.socket = self.connect()
                self.socket_identity = _identity(self.socket.fileno())
            self.socket.send(data)
        except OSError as error:
            if not isinstance(error, BlockingIOError):
                self.socket = None  # the executor has exited
            return False
        return True

    def connect(self) -> socket.socket:
        """Return a socket connected to the executor. It is closed when it is garbage-collected."""
        import socket  # late: not needed by programs that report nothing

        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            if len(os.fsencode(self.name)) <= _MAX_PATH_BYTES:
                made.connect(self.name)
            else:
                folder, name = os.path.split(self.name)
                descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
                try:
                    made.connect(f"/proc/self/fd/{descriptor}/{name}")
                finally:
                    os.close(descriptor)
        except BaseException:
            made.close()
            raise
        return made

    def delay(self, step: float, total: Optional[float], metrics: Dict[str, float]) -> None:  # noqa: UP006, UP045
        """Keep progress that cannot be sent now: if it is the last, it is sent at the exit.

        Metrics that are not plain numbers are left out: a tensor would keep the memory that it was computed from.
        """
        numbers = {name: metrics[name] for name in metrics if isinstance(metrics[name], (int, float))}
        self.delayed = step, total, numbers
        self.register()

    def register(self) -> None:
        """Have waiting reports sent when the process exits."""
        if not self.registered:
            import atexit  # late: only programs that report need it

            atexit.unregister(self.finish)
            atexit.register(self.finish)
            self.registered = True

    def keep(self, data: bytes) -> None:
        """Report a checkpoint, now or later."""
        self.register()
        self.waiting.append(data)
        self.catch_up()

    def catch_up(self) -> None:
        """Send waiting reports, as far as there is room."""
        while self.waiting:
            data = self.waiting.popleft()
            if not self.send(data):
                self.waiting.appendleft(data)
                return

    def finish(self) -> None:
        """Send waiting reports; the process exits."""
        delayed, self.delayed = self.delayed, None
        try:
            self.catch_up()
            if delayed is not None:
                self.waiting.append(_format_progress(*delayed))
            self.catch_up()
            deadline = time.monotonic() + _EXIT_TIMEOUT_SECONDS
            while self.waiting and self.socket is not None and time.monotonic() < deadline:
                time.sleep(0.005)
                self.catch_up()
        except Exception:  # a failing report must not fail the program
            self.waiting.clear()


def _identity(descriptor: int) -> Optional[Tuple[int, int]]:  # noqa: UP006, UP045
    """Return the device and inode of a descriptor; None if it is closed."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _format_progress(step: float, total: Optional[float], metrics: Dict[str, float]) -> bytes:  # noqa: UP006, UP045
    """Return the datagram of a progress report."""
    text = f"p\t{float(step)!r}\t" + ("" if total is None else repr(float(total)))
    for name in metrics:
        more = f"\t{name}={float(metrics[name])!r}"
        if len(text) + len(more) <= _MAX_DATAGRAM_BYTES:
            text += more
    return text.encode()


_reporter = _Reporter()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reporter.reset)


def progress(step: float, total: Optional[float] = None, **metrics: float) -> None:  # noqa: UP045
    """Report the progress of the program. It may be called in every step.

    Args:
        step: work done so far: steps, epochs, batches.
        total: all work, if known: the end is estimated from it.
        metrics: your own metrics, shown next to the others: `loss=0.3`. Tensors with one number are accepted.
    """
    if not _reporter.name:
        return
    try:
        _reporter.delayed = None
        if not _reporter.is_permitted() or not _reporter.send(_format_progress(step, total, metrics)):
            _reporter.delay(step, total, metrics)
            return
        if _reporter.waiting:
            _reporter.catch_up()
    except Exception:  # a failing report must not fail the program
        return


class checkpoint:  # noqa: N801 - reads as a function where it is used
    """Context manager around the saving of a checkpoint; not reported if an exception leaves the block.

    Args:
        step: as of `progress`.
    """

    __slots__ = ("_started_at", "_step")

    def __init__(self, step: float) -> None:
        self._step = step
        self._started_at = 0.0

    def __enter__(self) -> None:
        self._started_at = time.clock_gettime(_CLOCK)

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],  # noqa: UP006, UP045
        error: Optional[BaseException],  # noqa: UP045
        trace: Optional[TracebackType],  # noqa: UP045
    ) -> None:
        if kind is not None or not _reporter.name:
            return
        try:
            now = time.clock_gettime(_CLOCK)
            _reporter.keep(b"c\t%r\t%r\t%r" % (float(self._step), now, now - self._started_at))
        except Exception:  # a failing report must not fail the program
            return
