"""Programs on a pseudo-terminal: what they print, with the time at which each piece came."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import selectors
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bench.harness import CannotRunError
from bench.measured_processes import TIMEOUT_SECONDS, Workshop, wait_all

_COLUMNS, _ROWS = 120, 40
_CHUNK = 1 << 16
_NS = 1e-9


@dataclass(slots=True)
class Seen:
    """What came on the terminal.

    Attributes:
        begin: nanoseconds since 1970, before the first program was started.
        end: seconds after `begin` at which the last of the programs had ended.
        cpu: seconds of user and system time of the programs and of all that they started.
    """

    begin: int
    end: float = 0.0
    cpu: float = 0.0
    codes: list[int] = field(default_factory=list)
    text: str = ""
    marks: list[tuple[int, int]] = field(default_factory=list)  # length of the text so far, arrival

    def took(self, data: bytes) -> None:
        """Notes a piece, now."""
        self.text += data.decode("utf-8", errors="replace")
        self.marks.append((len(self.text), time.time_ns()))

    def arrivals(self, pattern: str) -> list[tuple[str, int]]:
        """Each match's first group, with the time (nanoseconds since 1970) at which all of it was there."""
        found: list[tuple[str, int]] = []
        marks = iter(self.marks)
        length = at = 0
        for match in re.finditer(pattern, self.text):
            while length < match.end():
                length, at = next(marks)
            found.append((match[1], at))
        return found

    def after(self, moment: int) -> float:
        """Seconds from the start to a moment."""
        return (moment - self.begin) * _NS


def watch(shop: Workshop, commands: Sequence[Sequence[str]], *, each: Callable[[Seen], None] | None = None) -> Seen:
    """Starts programs together on one terminal and reads it until all of them have ended.

    Args:
        each: called after each piece.

    Raises:
        CannotRunError: they do not end.
    """
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
    seen = Seen(begin=time.time_ns())
    programs = [shop.start(command, stdin=slave, stdout=slave, stderr=slave) for command in commands]
    os.close(slave)
    try:
        _read(master, programs, seen, each)
        seen.cpu = wait_all(programs)
    finally:
        os.close(master)
    seen.codes = [program.returncode for program in programs]
    return seen


def _read(
    master: int,
    programs: Sequence[subprocess.Popen[bytes]],
    seen: Seen,
    each: Callable[[Seen], None] | None,
) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(master, selectors.EVENT_READ)
        for program in programs:
            selector.register(os.pidfd_open(program.pid), selectors.EVENT_READ)
        living = len(programs)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while living or master in selector.get_map():
            ready = selector.select(TIMEOUT_SECONDS if living else 0)
            if time.monotonic() > deadline:
                raise CannotRunError(f"no end after {TIMEOUT_SECONDS:.0f} s; on the terminal: {seen.text[-2000:]}")
            if not ready:
                return
            for key, _ in ready:
                if key.fd != master:
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    living -= 1
                    seen.end = seen.after(time.time_ns())
                elif data := _piece(master):
                    seen.took(data)
                    if each:
                        each(seen)
                else:
                    selector.unregister(master)


def _piece(master: int) -> bytes:
    try:
        return os.read(master, _CHUNK)
    except OSError:  # EIO: the last program on the terminal has ended
        return b""
