"""The executor program: `bootstrap.command("tony.executor.main")`, its LaunchContext as JSON on standard input."""

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
from tony.executor.watchdog import Watchdog
from tony.linux import oom_score, process, resource_limits
from tony.model.codec import DecodeError, from_plain
from tony.model.json_text import BadJson, loads
from tony.protocol.launch import LaunchContext

if TYPE_CHECKING:
    from tony.executor.am_connection import Connect

#: Bytes of a launch context. The longest parts are `env` and the command; Linux passes some 2 MiB to a program.
_MOST = 16 << 20
#: `program_environment.MARKER`; that module is not to be loaded before the watchdog is forked.
_MARKER = "TONY_TASK"

log = logging.getLogger(__name__)


def main() -> int:
    """Runs one executor. An argument names a file that holds the context instead; it is deleted once it was read."""
    return run(sys.argv[1] if len(sys.argv) > 1 else None)


def run(file: str | None, wrap: Callable[[Connect], Connect] = lambda connect: connect) -> int:
    """Runs one executor.

    Args:
        file: that holds the launch context; None for standard input.
        wrap: puts something between the executor and its application master; for executors with faults.
    """

    def read() -> LaunchContext:
        try:
            return _read_context(file)
        except (OSError, ValueError) as error:
            raise PlatformError(f"no launch context: {error}") from error

    return begin(read, wrap)


def begin(read: Callable[[], LaunchContext], wrap: Callable[[Connect], Connect] = lambda connect: connect) -> int:
    """Runs one executor.

    Args:
        read: finds out what to do, as long as nothing else is loaded; may raise TonyError.
    """
    process.hear_signals()
    score = oom_score.own()
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
        print(f"the watchdog cannot be started: {resource_limits.describe_os_error(error)}", file=sys.stderr)
        return ExitCode.INFRASTRUCTURE
    score.settle(oom_score.OomScoreOffset.EXECUTOR)
    _open_log(context)
    return _load_life(context)(context, watchdog, wrap)


def _load_life(context: LaunchContext) -> Callable[[LaunchContext, Watchdog, Callable[[Connect], Connect]], int]:
    """Loads the rest of the program, which the watchdog does not need: asyncio and all that uses it."""
    without_ssl = context.task.am_address.startswith("unix:") and "ssl" not in sys.modules
    if without_ssl:
        # asyncio loads OpenSSL if it is there: 4 MiB in each of a machine's executors, for nothing.
        sys.modules["ssl"] = None  # type: ignore[assignment]
    try:
        from tony.executor.event_loop import run_executor
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
    """What an executor is told, from its JSON.

    Raises:
        ValueError: it is none; the text holds nothing of what came.
    """
    try:
        return from_plain(LaunchContext, loads(data), ignore_unknown=True)
    except DecodeError as error:
        raise ValueError(str(error)) from None
    except BadJson:
        raise ValueError("what came is not JSON") from None  # and may be full of secrets: not quoted


def _read(descriptor: int) -> bytes:
    pieces = []
    size = 0
    while piece := os.read(descriptor, 1 << 16):
        pieces.append(piece)
        size += len(piece)
        if size > _MOST:
            raise ValueError(f"more than {_MOST} bytes")
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
