"""A command on a controlling terminal of its own, at which a test types."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import termios
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.lab import until

CTRL_C = b"\x03"


class TypedTerminal:
    """The test's end of the terminal.

    Attributes:
        seen: everything that was shown so far.
    """

    def __init__(self, process: subprocess.Popen[bytes], number: int) -> None:
        self.process = process
        self.seen = ""
        self._number = number

    def type(self, keys: bytes) -> None:
        os.write(self._number, keys)

    def wait_shown(self, text: str) -> None:
        """Waits for a text after all that was waited for before."""
        start = len(self.seen)
        until(lambda: (self._read() and text in self.seen[start:]) or text in self.seen[start:], f"{text!r} is shown")

    def wait_exit(self) -> int:
        def has_exited() -> bool:
            ended = self.process.poll() is not None  # before the read: then nothing follows what is read
            return not self._read() and ended

        until(has_exited, "the command exits")
        return self.process.wait()

    def has_echo(self) -> bool:
        """Whether keys are shown, as they are outside of a question."""
        return bool(termios.tcgetattr(self._number)[3] & termios.ECHO)

    def resize(self, rows: int, columns: int) -> None:
        termios.tcsetwinsize(self._number, (rows, columns))

    def _read(self) -> bool:
        if not select.select([self._number], [], [], 0.05)[0]:
            return False
        try:
            data = os.read(self._number, 65536)
        except OSError:  # the other end is closed
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)


@contextmanager
def type_at(argv: Sequence[str], env: Mapping[str, str], folder: Path) -> Iterator[TypedTerminal]:
    """Starts a command on a terminal; kills it at the end, if it still runs."""
    own, other = pty.openpty()
    process = subprocess.Popen(
        ["setsid", "--ctty", "--wait", *argv],
        env={"TERM": "xterm", "COLUMNS": "100", "LINES": "30", **env},
        stdin=other,
        stdout=other,
        stderr=other,
        cwd=folder,
    )
    os.close(other)
    try:
        yield TypedTerminal(process, own)
    finally:
        os.close(own)  # a hang-up for what is left
        process.wait(60)
