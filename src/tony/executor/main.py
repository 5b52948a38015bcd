"""The executor program of `isolated_interpreter.command`; its LaunchContext comes as JSON on standard input."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tony import clock
from tony.errors import ExitCode, PlatformError, TonyError
from tony.executor.program.watchdog import Watchdog
from tony.linux import oom_score, os_errors, process
from tony.model.codec import DecodeError, from_plain
from tony.model.strict_json import InvalidJsonError, loads
from tony.protocol.launch import LaunchContext

if TYPE_CHECKING:
    from tony.executor.control.am_connection import Connect

#: Maximum bytes of a launch context. The longest parts are `env` and the command; Linux passes some 2 MiB to a program.
_MAX_CONTEXT_BYTES = 16 << 20
#: `program_environment.MARKER`; that module must not be loaded before the watchdog is forked.
_MARKER = "TONY_TASK"


def main() -> int:
    """Run one executor. An argument names a file with the launch context, which is deleted once read."""
    return run(sys.argv[1] if len(sys.argv) > 1 else None)


def run(file: str | None, wrap: Callable[[Connect], Connect] = lambda connect: connect) -> int:
    """Run one executor.

    Args:
        file: file with the launch context; None for standard input.
        wrap: wraps the function that connects to the application master; for fault injection.
    """

    def read() -> LaunchContext:
        try:
            return _read_context(file)
        except (OSError, ValueError) as error:
            raise PlatformError(f"cannot read the launch context: {error}") from error

    return begin(read, wrap)


def begin(read: Callable[[], LaunchContext], wrap: Callable[[Connect], Connect] = lambda connect: connect) -> int:
    """Run one executor. `read` returns the launch context before anything else is loaded; may raise TonyError."""
    process.hear_signals()
    score = oom_score.get_own_score()
    process.set_not_dumpable()
    try:
        context = read()
    except TonyError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    process.set_child_subreaper()
    watchdog = Watchdog(f"{_MARKER}={context.container.marker}", context.container.cgroup)
    try:
        watchdog.fork()
    except OSError as error:
        print(f"cannot start the watchdog: {os_errors.describe_os_error(error)}", file=sys.stderr)
        return ExitCode.INFRASTRUCTURE
    score.settle(oom_score.OomScoreOffset.EXECUTOR)
    _open_log(context)
    return _load_runner(context)(context, watchdog, wrap)


def _load_runner(
    context: LaunchContext,
) -> Callable[[LaunchContext, Watchdog, Callable[[Connect], Connect]], int]:
    """Load the rest of the executor, which the watchdog does not need: asyncio and everything that uses it."""
    without_ssl = context.task.am_address.startswith("unix:") and "ssl" not in sys.modules
    if without_ssl:
        # asyncio loads OpenSSL if it is installed: 4 MiB in each executor of a machine, unused.
        sys.modules["ssl"] = None  # type: ignore[assignment]
    try:
        from tony.executor.executor import run_executor  # late: it loads asyncio
    finally:
        if without_ssl:
            del sys.modules["ssl"]
    return run_executor


def _read_context(file: str | None) -> LaunchContext:
    if file is None:
        data = _read(0)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
    else:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.unlink(file)
            data = _read(descriptor)
        finally:
            os.close(descriptor)
    return decode_context(data)


def decode_context(data: bytes) -> LaunchContext:
    """Return the launch context of an executor from its JSON.

    Raises:
        ValueError: it is invalid; the message quotes nothing of it.
    """
    try:
        return from_plain(LaunchContext, loads(data), ignore_unknown=True)
    except DecodeError as error:
        raise ValueError(str(error)) from None
    except InvalidJsonError:
        raise ValueError("it is not JSON") from None  # may hold secrets: not quoted


def _read(descriptor: int) -> bytes:
    pieces = []
    size = 0
    while piece := os.read(descriptor, 1 << 16):
        pieces.append(piece)
        size += len(piece)
        if size > _MAX_CONTEXT_BYTES:
            raise ValueError(f"more than {_MAX_CONTEXT_BYTES} bytes")
    return b"".join(pieces)


def _open_log(context: LaunchContext) -> None:
    logging.raiseExceptions = False  # a full disk is no reason to print tracebacks
    handler: logging.Handler
    try:
        folder = Path(context.container.log_folder)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{context.task.role}-{context.task.index}.executor.log"
        handler = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
    except OSError:
        handler = logging.StreamHandler()
    logging.Formatter.converter = time.gmtime
    handler.setFormatter(logging.Formatter(clock.LOG_LINE))
    logging.getLogger().addHandler(handler)
    logging.getLogger("tony").setLevel(logging.INFO)
