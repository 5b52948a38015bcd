"""The terminal is in raw mode inside, and as before outside, whatever happens inside."""

from __future__ import annotations

import os
import signal
import termios
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.support.waiting import wait_until
from tony.cli.terminal.raw_terminal import read_terminal, set_raw
from tony.protocol.remote_program_messages import ClientTerminal, WindowSize


@pytest.fixture
def terminal() -> Iterator[int]:
    own, other = os.openpty()
    yield other
    os.close(own)
    os.close(other)


def has_echo(number: int) -> bool:
    return bool(termios.tcgetattr(number)[3] & termios.ECHO)


async def test_it_is_restored_after_an_error(terminal: int) -> None:
    before = termios.tcgetattr(terminal)
    inside: list[bool] = []
    with suppress(KeyError), set_raw(terminal, print):
        inside.append(has_echo(terminal))
        raise KeyError
    assert inside == [False]
    assert termios.tcgetattr(terminal) == before
    assert signal.getsignal(signal.SIGWINCH) == signal.getsignal(signal.SIGCONT) == signal.SIG_DFL


async def test_changes_of_its_size(terminal: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that were made while the command was stopped, when the shell had set its own mode."""
    monkeypatch.setenv("TERM", "xterm-test")
    termios.tcsetwinsize(terminal, (30, 100))
    assert read_terminal(terminal) == ClientTerminal(size=WindowSize(rows=30, columns=100), kind="xterm-test")
    sizes: list[WindowSize] = []
    cooked = termios.tcgetattr(terminal)
    with set_raw(terminal, sizes.append):
        termios.tcsetwinsize(terminal, (31, 101))
        os.kill(os.getpid(), signal.SIGWINCH)
        await wait_until(lambda: WindowSize(rows=31, columns=101) in sizes)
        termios.tcsetattr(terminal, termios.TCSANOW, cooked)
        termios.tcsetwinsize(terminal, (32, 102))
        os.kill(os.getpid(), signal.SIGCONT)
        await wait_until(lambda: WindowSize(rows=32, columns=102) in sizes)
        assert not has_echo(terminal)
    assert has_echo(terminal)
