"""Executors as processes of this machine: started, watched, ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tony.linux import process
from tony.model.codec import to_plain
from tony.protocol.launch import LaunchContext
from tony.schedulers.local.fork_server import ForkServer

#: Bytes of an executor's log that are looked at for its last line.
_TAIL = 4096
#: When, how bad and who, before what a line of that log says (`clock.LOG_LINE`).
_LOG_HEAD = re.compile(r"^\d{4}-\d\d-\d\d [\d:,]+Z [A-Z]+ [\w.]+: ", re.ASCII)


class ExecutorProcess:
    """A living executor. The kernel tells of its end (pidfd); nobody asks again and again.

    Attributes:
        pid: also its session's id.
    """

    def __init__(self, pid: int, server: ForkServer, log: Path, ended: Callable[[str], object]) -> None:
        self.pid = pid
        self._server = server
        self._log = log
        self._ended = ended
        self._gone = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._pidfd = os.pidfd_open(pid)
        self._loop.add_reader(self._pidfd, self._over)
        self._last: asyncio.Task[None] | None = None

    def kill(self) -> None:
        """SIGKILL. May be called twice, or after its end."""
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def forget(self) -> None:
        """Looks away: it is not the one that was meant."""
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    async def wait_gone(self) -> None:
        """Returns once it has ended, and that was told."""
        await self._gone.wait()

    def _over(self) -> None:
        self.forget()
        self._last = self._loop.create_task(self._tell())

    async def _tell(self) -> None:
        returncode = await self._server.reap(self.pid)
        self._gone.set()
        self._ended(f"its executor {describe_end(returncode)}{self._last_words(returncode)}")

    def _last_words(self, returncode: int | None) -> str:
        """Why it failed, as far as it said so itself."""
        if returncode is None or returncode <= 0:
            return ""
        with contextlib.suppress(OSError), self._log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            lines = file.read().decode("utf-8", errors="replace").strip().splitlines()
            if lines:
                return f": {_LOG_HEAD.sub('', lines[-1].strip())}; all it said: {self._log}"
        return ""


async def start(
    server: ForkServer,
    argv: Sequence[str],
    context: LaunchContext,
    *,
    env: Mapping[str, str],
    folder: Path,
    log: Path,
    inherited: Sequence[int],
    ended: Callable[[str], object],
) -> ExecutorProcess:
    """Starts an executor in a session of its own.

    Args:
        context: goes by pipe; it holds secrets.
        env: what its environment has more than ours.
        inherited: descriptors that it keeps open as long as it lives.
        ended: called once, on the running loop, with how it ended.

    Raises:
        OSError: it cannot be started.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    reading, writing = os.pipe2(os.O_CLOEXEC)
    try:
        with log.open("ab") as output:
            pid = await server.start(
                argv, folder=folder, env=env, stdin=reading, output=output.fileno(), kept=inherited
            )
        executor = ExecutorProcess(pid, server, log, ended)
    except BaseException:
        os.close(writing)  # if it lives it ends: no context comes
        raise
    finally:
        os.close(reading)
    _feed(writing, json.dumps(to_plain(context), separators=(",", ":")).encode())
    return executor


def adopt(
    pid: int, started: int | None, server: ForkServer, log: Path, ended: Callable[[str], object]
) -> ExecutorProcess | None:
    """Watches an executor that an earlier application master has started; None if it does not live any more.

    Nobody will know how it ended: whoever waits for it is not us.

    Args:
        started: when (clock ticks since boot).
        ended: called once, on the running loop, with how it ended.
    """
    if started is None or process.start_time(pid) != started or not process.is_alive(pid):
        return None
    try:
        executor = ExecutorProcess(pid, server, log, ended)
    except OSError:
        return None
    if process.start_time(pid) != started:
        executor.forget()
        return None
    return executor


def describe_end(returncode: int | None) -> str:
    """`ended with exit code 3`, `was killed by SIGKILL`; None is what nobody knows."""
    if returncode is None:
        return "ended; how, is not known"
    if returncode >= 0:
        return f"ended with exit code {returncode}"
    try:
        return f"was killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"was killed by signal {-returncode}"


def _feed(descriptor: int, content: bytes) -> None:
    """Writes and closes, without ever waiting for the reader: what the pipe does not hold, the loop writes later."""
    os.set_blocking(descriptor, False)
    loop = asyncio.get_running_loop()
    rest = memoryview(content)

    def write() -> bool:
        """Whether all is written."""
        nonlocal rest
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            return False
        except BrokenPipeError:
            rest = rest[:0]  # it has ended; that is told elsewhere
        return not rest

    def write_more() -> None:
        if write():
            loop.remove_writer(descriptor)
            os.close(descriptor)

    if write():
        os.close(descriptor)
    else:
        loop.add_writer(descriptor, write_more)
