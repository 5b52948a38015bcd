"""The terminal in raw mode: every key goes to a remote program, whose terminal has the size of this one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tony.protocol.remote_program_messages import ClientTerminal, WindowSize


def read_terminal(number: int) -> ClientTerminal:
    """Return kind and size of a terminal."""
    return ClientTerminal(size=read_window_size(number), kind=os.environ.get("TERM", ""))


def read_window_size(number: int) -> WindowSize:
    """Return the size of a terminal's window."""
    rows, columns = termios.tcgetwinsize(number)
    return WindowSize(rows=rows, columns=columns)


@contextmanager
def set_raw(number: int, on_resize: Callable[[WindowSize], None]) -> Iterator[None]:
    """Put a terminal into raw mode as long as the context lasts. Needs a running event loop.

    Args:
        on_resize: called with each new size of the window, also after the process was stopped and continued.
    """
    before = termios.tcgetattr(number)
    loop = asyncio.get_running_loop()

    def resize() -> None:
        with contextlib.suppress(termios.error):
            on_resize(read_window_size(number))

    def resume() -> None:  # the shell that continues a stopped command has restored its own mode
        with contextlib.suppress(termios.error):
            tty.setraw(number)
        resize()

    loop.add_signal_handler(signal.SIGWINCH, resize)
    loop.add_signal_handler(signal.SIGCONT, resume)
    try:
        tty.setraw(number)
        yield
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
        loop.remove_signal_handler(signal.SIGCONT)
        with contextlib.suppress(termios.error):
            termios.tcsetattr(number, termios.TCSADRAIN, before)
