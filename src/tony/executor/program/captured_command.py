"""Runs a command with a timeout and captures its output."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tony.executor.program.program_environment import LaunchFailedError
from tony.executor.program.spawn import Reaper

#: Bytes of the output that are kept.
_MAX_OUTPUT_BYTES = 1 << 20
#: Characters of standard error that are kept.
_MAX_ERROR_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """The output of a command and its exit status; negative: killed by that signal."""

    status: int
    out: str
    err: str


async def run_captured(
    argv: Sequence[str],
    environment: Mapping[str, str],
    folder: str,
    reaper: Reaper,
    timeout: float,
    on_start: Callable[[int], None] = lambda pid: None,
) -> CommandOutput:
    """Run a command until it exits.

    Args:
        timeout: seconds that it may take.
        on_start: called with its pid.

    Raises:
        LaunchFailedError: it cannot be started.
        TimeoutError: it took too long and was killed.
    """
    ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    (out, out_writing), (err, err_writing) = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
    try:
        pid = _start(argv, environment, folder, out_writing, err_writing)
    except LaunchFailedError:
        os.close(out)
        os.close(err)
        raise
    finally:
        os.close(out_writing)
        os.close(err_writing)

    def on_exit(status: int, usage: object) -> None:
        if not ended.done():
            ended.set_result(status)

    on_start(pid)
    reaper.watch(pid, on_exit)
    try:
        async with asyncio.timeout(timeout), asyncio.TaskGroup() as group:
            texts = [group.create_task(_read_text(reading)) for reading in (out, err)]
            status = await ended
    except BaseException:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        raise
    error_text = " ".join(texts[1].result().split())[-_MAX_ERROR_CHARACTERS:]
    return CommandOutput(os.waitstatus_to_exitcode(status), texts[0].result(), error_text)


def _start(argv: Sequence[str], environment: Mapping[str, str], folder: str, out: int, err: int) -> int:
    # No Python code may run between fork and exec: locks that other threads hold stay locked in the child.
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise LaunchFailedError(f"{argv[0]} cannot be started: {error}") from error
    child.returncode = 0  # the reaper waits for it, not this object
    return child.pid


async def _read_text(reading: int) -> str:
    """Read a pipe to its end; return the first part."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb", 0)
    )
    data = bytearray()
    try:
        while piece := await reader.read(1 << 16):
            data += piece[: _MAX_OUTPUT_BYTES - len(data)]
    finally:
        transport.close()
    return data.decode(errors="replace")
