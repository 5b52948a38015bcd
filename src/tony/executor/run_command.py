"""What a program of this machine says when it is asked: run as our child, ended if it takes too long."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence

from tony.dataclass import dataclass
from tony.executor.program_environment import LaunchFailed
from tony.executor.reaper import Reaper
from tony.executor.spawn import spawn

#: Bytes of its output that are kept, and characters of its complaints.
_MOST, _MOST_COMPLAINTS = 1 << 20, 500


#: Starts a program with these arguments, environment, folder, standard output and error; answers its pid.
Start = Callable[[Sequence[str], Mapping[str, str], str, int, int], int]


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """What a program said, and how it ended: below 0 by that signal."""

    status: int
    out: str
    err: str


async def run_captured(
    argv: Sequence[str],
    environment: Mapping[str, str],
    folder: str,
    reaper: Reaper,
    patience: float,
    began: Callable[[int], None] = lambda pid: None,
    start: Start | None = None,
) -> CommandOutput:
    """Runs a program to its end.

    Args:
        patience: seconds that it may take.
        began: is told its pid.
        start: starts it; without one it is started so that other threads of ours do not matter.

    Raises:
        LaunchFailed: it cannot be started.
        TimeoutError: it takes too long; nothing of it is left.
    """
    ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    (out, out_writing), (err, err_writing) = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
    try:
        pid = (start or _start)(argv, environment, folder, out_writing, err_writing)
    except LaunchFailed:
        os.close(out)
        os.close(err)
        raise
    finally:
        os.close(out_writing)
        os.close(err_writing)

    def tell(status: int, usage: object) -> None:
        if not ended.done():
            ended.set_result(status)

    began(pid)
    reaper.watch(pid, tell)
    try:
        async with asyncio.timeout(patience), asyncio.TaskGroup() as group:
            texts = [group.create_task(_text(reading)) for reading in (out, err)]
            status = await ended
    except BaseException:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        raise
    complaints = " ".join(texts[1].result().split())[-_MOST_COMPLAINTS:]
    return CommandOutput(os.waitstatus_to_exitcode(status), texts[0].result(), complaints)


def spawn_command(argv: Sequence[str], environment: Mapping[str, str], folder: str, out: int, err: int) -> int:
    """Starts it as a program is started: it dies with us. Only while we have one thread."""
    return spawn(argv, environment, folder, (), out, err)


def _start(argv: Sequence[str], environment: Mapping[str, str], folder: str, out: int, err: int) -> int:
    # Nothing of Python runs between fork and exec: what another thread holds locked stays locked there.
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
        raise LaunchFailed(f"{argv[0]} cannot be started: {error}") from error
    child.returncode = 0  # the reaper waits for it, not this object
    return child.pid


async def _text(reading: int) -> str:
    """All that comes out of a pipe, as far as it is of use."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb", 0)
    )
    data = bytearray()
    try:
        while piece := await reader.read(1 << 16):
            data += piece[: _MOST - len(data)]
    finally:
        transport.close()
    return data.decode(errors="replace")
