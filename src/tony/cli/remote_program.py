"""Runs a program of `tony exec` or `tony shell`: standard streams, terminal, Ctrl-C, exit code."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from tony.cli.submission_signals import TERMINATION_SIGNALS
from tony.cli.terminal.output import warn
from tony.cli.terminal.raw_terminal import read_terminal, set_raw
from tony.client.remote_program import NotStartedError, RemoteProgramClient, StandardFiles, start_remote_program
from tony.model.state_directory import Home
from tony.protocol.remote_program_messages import SIGNAL_BASE, RemoteProgramExited

_MAX_EXIT_CODE = 255
_MAX_REASON_CHARACTERS = 1000


async def run_remote_program(
    home: Home, job_id: str, target: str | None, argv: tuple[bytes, ...], *, has_terminal: bool
) -> int:
    """Run a program in a task's container; return its exit code.

    Args:
        argv: empty for a shell.
        has_terminal: standard input is a terminal, and the program gets one.
    """
    files = _find_standard_files()
    terminal = read_terminal(sys.stdin.fileno()) if has_terminal else None
    try:
        async with start_remote_program(home, job_id, target, argv, files, terminal) as program:
            with ExitStack() as stack:
                if has_terminal:
                    stack.enter_context(set_raw(sys.stdin.fileno(), program.resize))
                exited = await _carry(program)
    except NotStartedError as error:
        if not error.shell_code:
            raise
        warn(str(error))
        return error.shell_code
    if isinstance(exited, int):
        return SIGNAL_BASE + exited
    if exited.reason:
        warn(f"the program was ended: {exited.reason[:_MAX_REASON_CHARACTERS]}")
    return exited.code if 0 <= exited.code <= _MAX_EXIT_CODE else 1


async def _carry(program: RemoteProgramClient) -> RemoteProgramExited | int:
    """Carry the streams until the program has exited, or a signal ends this command; return its number then.

    The first Ctrl-C is the program's, a second one ends this command.
    """
    loop = asyncio.get_running_loop()
    carrying = loop.create_task(program.carry())
    received: list[int] = []

    def leave(number: int) -> None:
        received.append(number)
        carrying.cancel()

    def interrupt() -> None:
        program.interrupt()
        loop.add_signal_handler(signal.SIGINT, leave, signal.SIGINT)

    handlers: dict[signal.Signals, Callable[[], None]] = {
        signal.SIGINT: interrupt,
        **{number: partial(leave, number) for number in TERMINATION_SIGNALS},
    }
    handled = [number for number in handlers if signal.getsignal(number) is not signal.SIG_IGN]
    for number in handled:
        loop.add_signal_handler(number, handlers[number])
    try:
        return await carrying
    except asyncio.CancelledError:
        if not received:
            raise
        return received[0]
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


def _find_standard_files() -> StandardFiles:
    """Return the standard streams; a closed one is replaced: `prepare_output` has opened others for the output."""
    return StandardFiles(
        input=None if sys.stdin is None or sys.stdin.closed else sys.stdin.fileno(),
        output=sys.stdout.fileno(),
        error=sys.stderr.fileno(),
    )
