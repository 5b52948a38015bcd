"""Single keys of a terminal, as they are pressed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def read_key(heed: Callable[[str], None]) -> Iterator[None]:
    """Inside, each key goes to `heed`, and is not shown; where nobody can press any, nothing happens.

    The terminal is as before afterwards. Ctrl-C and Ctrl-Z mean what they always do. To be used within an event loop.
    """
    try:
        number = sys.stdin.fileno()
        # One that we may not read from, as a job of the shell's in its background, would stop us.
        reads = os.isatty(number) and os.tcgetpgrp(number) == os.getpgrp()
    except (OSError, ValueError, AttributeError):
        reads = False
    if not reads:
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(number)
    loop = asyncio.get_running_loop()

    def read() -> None:
        try:
            data = os.read(number, 64)
        except OSError:
            data = b""
        if not data:  # the terminal is gone
            loop.remove_reader(number)
        for key in data.decode("ascii", "ignore"):
            heed(key)

    tty.setcbreak(number, termios.TCSANOW)
    loop.add_reader(number, read)
    try:
        yield
    finally:
        loop.remove_reader(number)
        with contextlib.suppress(termios.error):
            termios.tcsetattr(number, termios.TCSANOW, before)
