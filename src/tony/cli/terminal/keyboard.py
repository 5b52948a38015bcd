"""Reads single key presses from the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def watch_keys(on_key: Callable[[str], None]) -> Iterator[None]:
    """Pass each pressed key to `on_key`, without echo; do nothing if standard input is no terminal.

    Restores the terminal at the end. Ctrl-C and Ctrl-Z work as usual. Needs a running event loop.
    """
    try:
        number = sys.stdin.fileno()
        # A background job of a shell is stopped by SIGTTIN when it reads from the terminal.
        readable = os.isatty(number) and os.tcgetpgrp(number) == os.getpgrp()
    except (OSError, ValueError, AttributeError):
        readable = False
    if not readable:
        yield
        return
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

    tty.setcbreak(number, termios.TCSANOW)
    loop.add_reader(number, read)
    try:
        yield
    finally:
        loop.remove_reader(number)
        with contextlib.suppress(termios.error):
            termios.tcsetattr(number, termios.TCSANOW, before)
