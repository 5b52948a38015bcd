"""Single keys from the terminal, without echo, while an event loop runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def is_keyboard() -> bool:
    """Return True if standard input is a terminal from which this process may read."""
    try:
        number = sys.stdin.fileno()
        # A background job of a shell is stopped by SIGTTIN when it reads from the terminal.
        return os.isatty(number) and os.tcgetpgrp(number) == os.getpgrp()
    except (OSError, ValueError, AttributeError):
        return False


@contextmanager
def watch_keys(on_key: Callable[[str], None], *, drop_typed: bool = False) -> Iterator[None]:
    """Pass each pressed key to `on_key`, without echo; do nothing if standard input is no terminal.

    Restores the terminal at the end. Ctrl-C and Ctrl-Z work as usual. Needs a running event loop.

    Args:
        drop_typed: ignore what was typed before.
    """
    if not is_keyboard():
        yield
        return
    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    loop = asyncio.get_running_loop()

    def read() -> None:
        try:
            data = os.read(number, 64)
        except OSError:
            data = b""
        if not data:  # the terminal was closed
            loop.remove_reader(number)
        for key in data.decode("ascii", "ignore"):
            on_key(key)

    tty.setcbreak(number, termios.TCSAFLUSH if drop_typed else termios.TCSANOW)
    loop.add_reader(number, read)
    try:
        yield
    finally:
        loop.remove_reader(number)
        with contextlib.suppress(termios.error):
            termios.tcsetattr(number, termios.TCSANOW, before)
