"""How far a program is: `tony.progress(step, total, loss=...)` and `with tony.checkpoint(step):`.

Both do nothing where tony does not run the program; neither ever waits, nor raises anything of its own. Any process and
any thread of the program may call them.

What is told goes as a datagram to the executor, whose socket file is named in TONY_PROGRESS:

    p\t<step>\t<total or nothing>[\t<name>=<number>]...        progress
    c\t<step>\t<when it was done, CLOCK_BOOTTIME>\t<seconds>   a checkpoint

Standard library only, and for any Python from 3.7 on: see `tony.python_hooks`.
"""

from __future__ import annotations

import os
import time
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Deque, Optional, Tuple, Type  # noqa: UP035 - for old Pythons

if TYPE_CHECKING:
    import socket

__all__ = ["checkpoint", "progress"]

_VARIABLE = "TONY_PROGRESS"
#: The executor needs no more than so many values a second; so many may come at once.
_PER_SECOND, _AT_ONCE = 20.0, 4.0
#: Bytes of a datagram, and checkpoints that wait for room.
_LONGEST, _MOST = 4096, 64
#: Bytes of a path that the kernel takes for a socket.
_LONGEST_PATH = 107
#: Seconds that the end of a process waits for room for the last checkpoints.
_PATIENCE = 0.2
#: The clock of `tony.clock`.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class _Teller:
    """The way to the executor. All of its state may be lost without harm, but for the checkpoints that wait."""

    def __init__(self) -> None:
        self.name = os.environ.get(_VARIABLE, "")
        self.socket: Optional[socket.socket] = None  # noqa: UP045
        self.which: Optional[Tuple[int, int]] = None  # noqa: UP006, UP045
        self.waiting: Deque[bytes] = deque(maxlen=_MOST)  # noqa: UP006
        self.begin()

    def begin(self) -> None:
        """Of what a fork inherits, the checkpoints are its parent's to tell."""
        self.waiting.clear()
        self.allowed = _AT_ONCE
        self.at = 0.0

    def may(self) -> bool:
        """Whether one more value is of any use now."""
        now = time.monotonic()
        self.allowed = min(_AT_ONCE, self.allowed + (now - self.at) * _PER_SECOND)
        self.at = now
        if self.allowed < 1.0:
            return False
        self.allowed -= 1.0
        return True

    def tell(self, data: bytes) -> bool:
        """Sends a datagram if there is room for it."""
        try:
            if self.socket is not None and _identity(self.socket.fileno()) != self.which:
                # The program has closed what it did not open; what has that number now, if anything, is its own.
                self.socket.detach()
                self.socket = None
            if self.socket is None:
                self.socket = self.connected()
                self.which = _identity(self.socket.fileno())
            self.socket.send(data)
        except OSError as error:
            if not isinstance(error, BlockingIOError):
                self.socket = None  # the executor is gone
            return False
        return True

    def connected(self) -> socket.socket:
        """A socket that reaches the executor. It is closed when Python forgets it."""
        import socket  # late: a program that tells nothing does not pay for it

        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            if len(os.fsencode(self.name)) <= _LONGEST_PATH:
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

    def keep(self, data: bytes) -> None:
        """Tells of a checkpoint, now or later."""
        if not self.waiting:
            import atexit

            atexit.unregister(self.finish)
            atexit.register(self.finish)
        self.waiting.append(data)
        self.catch_up()

    def catch_up(self) -> None:
        """Tells what waits, as far as there is room."""
        while self.waiting:
            data = self.waiting.popleft()
            if not self.tell(data):
                self.waiting.appendleft(data)
                return

    def finish(self) -> None:
        """The process ends."""
        try:
            self.catch_up()
            deadline = time.monotonic() + _PATIENCE
            while self.waiting and self.socket is not None and time.monotonic() < deadline:
                time.sleep(0.005)
                self.catch_up()
        except Exception:  # nothing of ours may fail a program
            self.waiting.clear()


def _identity(descriptor: int) -> Optional[Tuple[int, int]]:  # noqa: UP006, UP045
    """Which file a descriptor stands for; None for none."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino


_teller = _Teller()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_teller.begin)


def progress(step: float, total: Optional[float] = None, **metrics: float) -> None:  # noqa: UP045
    """Says how far the program is. Call it in every step if you like.

    Args:
        step: what has been done: steps, epochs, batches.
        total: what there is to do, if that is known: an end can be estimated from it.
        metrics: numbers of yours to draw beside the others: `loss=0.3`. Tensors with one number will do.
    """
    if not _teller.name:
        return
    try:
        if not _teller.may():
            return
        text = f"p\t{float(step)!r}\t" + ("" if total is None else repr(float(total)))
        for name in metrics:
            more = f"\t{name}={float(metrics[name])!r}"
            if len(text) + len(more) <= _LONGEST:
                text += more
        _teller.tell(text.encode())
        if _teller.waiting:
            _teller.catch_up()
    except Exception:  # nothing of ours may fail a program
        return


class checkpoint:  # noqa: N801 - reads as a function where it is used
    """`with tony.checkpoint(step):` around the saving of a checkpoint. One that fails, by an exception, is none.

    Args:
        step: as of `progress`.
    """

    __slots__ = ("_began", "_step")

    def __init__(self, step: float) -> None:
        self._step = step
        self._began = 0.0

    def __enter__(self) -> None:
        """It begins."""
        self._began = time.clock_gettime(_CLOCK)

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],  # noqa: UP006, UP045
        error: Optional[BaseException],  # noqa: UP045
        trace: Optional[TracebackType],  # noqa: UP045
    ) -> None:
        """It is written, unless that has failed."""
        if kind is not None or not _teller.name:
            return
        try:
            now = time.clock_gettime(_CLOCK)
            _teller.keep(b"c\t%r\t%r\t%r" % (float(self._step), now, now - self._began))
        except Exception:  # nothing of ours may fail a program
            return
