"""A terminal of a given width, as a person sees it: what a command leaves on it, and what it showed meanwhile."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.screen import Screen


@dataclass(frozen=True, slots=True)
class Shown:
    """What a command showed.

    Attributes:
        raw: everything, escape sequences included.
    """

    code: int
    raw: str
    screen: Screen

    @property
    def lines(self) -> list[str]:
        """What can be read in the end."""
        return self.screen.lines

    @property
    def rows(self) -> list[str]:
        """Each row of the terminal in the end."""
        return self.screen.rows


def show(
    argv: Sequence[str], columns: int, env: Mapping[str, str], folder: Path, terminal: str = "xterm-256color"
) -> Shown:
    """Runs a command on a terminal of its own, to its end."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        argv,
        env={**env, "TERM": terminal},
        cwd=folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    pieces = []
    try:
        while piece := os.read(ours, 65536):
            pieces.append(piece)
    except OSError:  # that is how the end of a terminal's last user shows
        pass
    finally:
        os.close(ours)
        code = process.wait(60)
    raw = b"".join(pieces).decode()
    screen = Screen(columns or 80, height=10**6)
    screen.feed(raw)
    return Shown(code, raw, screen)
