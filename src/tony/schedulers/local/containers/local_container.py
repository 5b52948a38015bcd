"""A container of the local scheduler, and the executor in it as a process of this machine: start, watch and kill it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tony.linux import process
from tony.linux.files import read_tail
from tony.model.codec import to_plain
from tony.model.job_spec import Resources
from tony.model.log_name import WATCHDOG_WORDS
from tony.protocol.launch import LaunchContext
from tony.schedulers.local.containers.fork_server import ForkServer

#: Bytes of an executor's log that are read for its last line.
_TAIL = 4096
#: Timestamp, level and logger name at the start of a log line (`clock.LOG_LINE`).
_LOG_HEAD = re.compile(r"^\d{4}-\d\d-\d\d [\d:,]+Z [A-Z]+ [\w.]+: ", re.ASCII)


class ExecutorProcess:
    """A running executor. Its end is signalled by the kernel (pidfd), without polling.

    Attributes:
        pid: also its session's id.
    """

    def __init__(self, pid: int, server: ForkServer, log: Path, ended: Callable[[str], object]) -> None:
        self.pid = pid
        self._server = server
        self._log = log
        self._on_ended = ended
        self._exited = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._pidfd = os.pidfd_open(pid)
        self._loop.add_reader(self._pidfd, self._on_exit)
        self._last: asyncio.Task[None] | None = None

    def kill(self) -> None:
        """Send SIGKILL. May be called twice, or after its end."""
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def forget(self) -> None:
        """Stop watching: it is not the process that was meant."""
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    async def wait_removed(self) -> None:
        """Return once it has ended and its end has been reported."""
        await self._exited.wait()

    def _on_exit(self) -> None:
        self.forget()
        self._last = self._loop.create_task(self._report())

    async def _report(self) -> None:
        returncode = await self._server.reap(self.pid)
        self._exited.set()
        self._on_ended(f"its executor {describe_end(returncode)}{self._read_last_log_line(returncode)}")

    def _read_last_log_line(self, returncode: int | None) -> str:
        """Return why it failed: the last line of its log, or the one before what its watchdog wrote below it."""
        if returncode is None or returncode <= 0:
            return ""
        with contextlib.suppress(OSError):
            lines = read_tail(self._log, _TAIL).decode("utf-8", errors="replace").strip().splitlines()
            lines = [line for line in lines if WATCHDOG_WORDS not in line]
            if lines:
                return f": {_LOG_HEAD.sub('', lines[-1].strip())}; full log: {self._log}"
        return ""


class ContainerStage(Enum):
    GRANTED = "granted"  #: nothing runs in it
    STARTING = "starting"  #: its files are being copied
    RUNNING = "running"  #: its executor runs
    ENDING = "ending"  #: remaining processes of the executor are being killed


@dataclass(slots=True, kw_only=True, eq=False)
class LocalContainer:
    """A container of the local scheduler.

    Attributes:
        adopted: an earlier AM attempt launched it.
        groups: folders of its control group; empty before the start, and where control groups cannot be used.
        cause: why the AM ends it; empty as long as it does not.
        force: kills it when the grace period of `release` has passed.
    """

    id: str
    role: str
    resources: Resources
    devices: tuple[str, ...]
    stage: ContainerStage = ContainerStage.GRANTED
    executor: ExecutorProcess | None = None
    adopted: bool = False
    groups: tuple[str, ...] = ()
    cause: str = ""
    force: asyncio.TimerHandle | None = None


async def start_executor(
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
    """Start an executor in a session of its own.

    Args:
        context: sent through a pipe, since it holds secrets.
        env: variables added to our environment.
        inherited: descriptors that stay open as long as it runs.
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
        os.close(writing)  # if it runs, it exits when no context arrives
        raise
    finally:
        os.close(reading)
    _write_nonblocking(writing, json.dumps(to_plain(context), separators=(",", ":")).encode())
    return executor


def adopt_executor(
    pid: int, started: int | None, server: ForkServer, log: Path, ended: Callable[[str], object]
) -> ExecutorProcess | None:
    """Watch an executor that an earlier AM attempt started; None if it is no longer running.

    Its exit code will be unknown: this process is not its parent.

    Args:
        started: start time (clock ticks since boot).
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
    """Return `exited with exit code 3` or `was killed by SIGKILL`; None is an unknown exit status."""
    if returncode is None:
        return "exited (exit code unknown)"
    if returncode >= 0:
        return f"exited with exit code {returncode}"
    return f"was killed by {process.format_signal(-returncode)}"


def _write_nonblocking(descriptor: int, content: bytes) -> None:
    """Write and close without ever blocking: what the pipe cannot hold, the loop writes later."""
    os.set_blocking(descriptor, False)
    loop = asyncio.get_running_loop()
    rest = memoryview(content)

    def write() -> bool:
        """Return True if everything is written."""
        nonlocal rest
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            return False
        except BrokenPipeError:
            rest = rest[:0]  # it has exited, which is reported elsewhere
        return not rest

    def write_more() -> None:
        if write():
            loop.remove_writer(descriptor)
            os.close(descriptor)

    if write():
        os.close(descriptor)
    else:
        loop.add_writer(descriptor, write_more)
