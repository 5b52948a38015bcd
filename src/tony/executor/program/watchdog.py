"""The watchdog: a second, small process that kills the program if the executor dies or hangs.

It reads from a pipe whose other end only the executor has. If the pipe closes without a farewell, the executor was
killed. The watchdog then kills everything that the executor had started, until nothing is left, using every available
handle: the control group, the marker in the environment, and processes that the executor has reported because they
carry no marker. It does the same if the executor hangs beyond its lease: the executor may be frozen while its program
is not.

It also removes the control group at the end, as the process that created it may be dead by then, and the folder of the
progress socket if the executor could not do so.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Sequence

from tony.executor.program import progress_folder
from tony.isolated_interpreter import command
from tony.linux import container_cgroup, oom_score, process
from tony.model.log_name import WATCHDOG_WORDS

log = logging.getLogger(__name__)

_FAREWELL = b"bye\n"
_LEASE = b"lease"
#: Seconds between two checks of the clock: a poll with a timeout does not notice that the machine was suspended.
_CLOCK_CHECK_SECONDS = 10.0
#: Seconds to keep killing processes that do not die (stuck in the kernel).
_KILL_TIMEOUT_SECONDS = 600.0
#: Signals for the executor or its program. The watchdog exits when they do, or when it is killed itself.
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE)


class Watchdog:
    """The executor's handle on its watchdog.

    Attributes:
        pid: of the current watchdog; 0 before the first.
    """

    def __init__(self, marker: str, folders: Sequence[str]) -> None:
        """Create a handle; start nothing.

        Args:
            marker: `TONY_TASK=...` as in the program's environment.
            folders: directories of the program's control group.
        """
        self.pid = 0
        self._marker = marker
        self._folders = tuple(folders)
        self._pipe = -1
        self._reported: dict[int, int] = {}
        self._lease = b""
        self._process: subprocess.Popen[bytes] | None = None

    def fork(self) -> None:
        """Start the first watchdog as a fork. Call it early: the copy keeps every loaded module in memory."""
        reading, writing = os.pipe2(os.O_CLOEXEC)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(writing)
                os.setsid()
                _watch(reading, self._marker, self._folders)
            finally:
                os._exit(0)
        os.close(reading)
        self._open(writing)

    def replace(self) -> None:
        """Start another watchdog after the previous one was killed.

        It is a fresh interpreter, as a fork would inherit the event loop.

        Raises:
            OSError: the process cannot be started.
        """
        self._close()
        reading, writing = os.pipe2(os.O_CLOEXEC)
        self._open(writing)
        reported, self._reported = self._reported, {}
        self._report(reported)  # buffered in the pipe: the new watchdog reads it first
        self._write(self._lease)
        try:
            with oom_score.get_own_score().children(oom_score.OomScoreOffset.KEEPER):
                self._process = subprocess.Popen(
                    command("tony.executor.program.watchdog", self._marker, *self._folders),
                    stdin=reading,
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,
                )
        finally:
            os.close(reading)
        self._process.returncode = 0  # the reaper waits for it, not this object
        self.pid = self._process.pid

    def point_out(self, pids: Iterable[int]) -> None:
        """Report processes of the program that carry no marker. Repeating one does nothing."""
        found = {pid: started for pid in pids if (started := process.start_time(pid)) is not None}
        self._report({pid: started for pid, started in found.items() if self._reported.get(pid) != started})

    def renew_lease(self, until: float, timeout: float) -> None:
        """Tell the watchdog when the executor's lease ends; an executor silent after that counts as hung.

        Args:
            until: time of the clock that includes suspend (CLOCK_BOOTTIME).
            timeout: seconds, not counting suspend, that the executor may take after `until` to stop its program.
        """
        self._lease = b"%s %d %d\n" % (_LEASE, int(until * 1000), int(timeout * 1000))
        self._write(self._lease)

    def dismiss(self, timeout: float = 0.0) -> None:
        """Tell the watchdog that everything has ended normally. May be called twice.

        Args:
            timeout: seconds to wait, blocking, for the watchdog to exit, so that the executor's parent finds no
                process left. Only where nothing else waits for the executor's children.
        """
        if self._pipe >= 0:
            with contextlib.suppress(OSError):
                os.write(self._pipe, _FAREWELL)
        self._close()
        if timeout > 0 and self.pid:
            self._wait_exited(timeout)

    def _wait_exited(self, timeout: float) -> None:
        with contextlib.suppress(OSError):  # it was killed and already reaped
            pidfd = os.pidfd_open(self.pid)
            try:
                poll = select.poll()
                poll.register(pidfd, select.POLLIN)
                if poll.poll(timeout * 1000):
                    os.waitpid(self.pid, 0)
            finally:
                os.close(pidfd)

    def _open(self, pipe: int) -> None:
        os.set_blocking(pipe, False)  # a watchdog that does not read must not block the executor
        self._pipe = pipe

    def _report(self, reported: dict[int, int]) -> None:
        self._reported.update(reported)
        for pid, started in reported.items():
            self._write(b"%d %d\n" % (pid, started))

    def _write(self, line: bytes) -> None:
        if self._pipe < 0 or not line:
            return  # no watchdog runs
        try:
            os.write(self._pipe, line)
        except OSError as error:
            log.warning("cannot write to the watchdog: %s", error)

    def _close(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1


def main() -> int:
    """Run a watchdog in a fresh interpreter: the pipe is standard input, arguments are marker and folders."""
    _watch(0, sys.argv[1], sys.argv[2:])
    return 0


def _watch(pipe: int, marker: str, folders: Sequence[str]) -> None:
    for signum in _IGNORED:
        signal.signal(signum, signal.SIG_IGN)
    messages = _Messages()
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    while True:
        if not poll.poll(messages.poll_timeout_ms()):
            if messages.is_expired():
                _kill_and_report("the executor hangs", marker, folders, messages.reported)
        elif chunk := os.read(pipe, 65536):
            messages.take(chunk)
        else:
            break
    if not messages.farewell:
        _kill_and_report("the executor died", marker, folders, messages.reported)
        progress_folder.remove_folders(marker)
    container_cgroup.remove(folders)


class _Messages:
    """The executor's messages to the watchdog.

    Attributes:
        reported: reported processes (pid -> start time).
        farewell: the executor has said that it ends normally.
    """

    def __init__(self) -> None:
        self.reported: dict[int, int] = {}
        self.farewell = False
        self._rest = b""
        self._lease: tuple[float, float] | None = None
        self._grace_from: float | None = None

    def take(self, chunk: bytes) -> None:
        """Parse another chunk read from the pipe."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            match line.split():
                case [word, until, timeout] if word == _LEASE and until.isdigit() and timeout.isdigit():
                    self._lease, self._grace_from = (int(until) / 1000, int(timeout) / 1000), None
                case [pid, started] if pid.isdigit() and started.isdigit():
                    self.reported[int(pid)] = int(started)
                case _:
                    self.farewell = line + b"\n" == _FAREWELL

    def poll_timeout_ms(self) -> float | None:
        """Return the milliseconds to poll for; None means without limit."""
        if self._lease is None:
            return None
        until, timeout = self._lease
        left = until - time.clock_gettime(time.CLOCK_BOOTTIME)
        if left <= 0:
            if self._grace_from is None:
                self._grace_from = time.monotonic()
            left = self._grace_from + timeout - time.monotonic()
        return max(0.0, min(left, _CLOCK_CHECK_SECONDS)) * 1000 + 1

    def is_expired(self) -> bool:
        """Return True, once per lease, if the executor should have stopped its program by now."""
        if self._lease is None or self._grace_from is None:
            return False
        is_expired = time.monotonic() - self._grace_from >= self._lease[1]
        if is_expired:
            self._lease = None
        return is_expired


def _kill_and_report(why: str, marker: str, folders: Sequence[str], reported: dict[int, int]) -> None:
    killed = _kill_all(marker, folders, reported)
    text = f"{why}{WATCHDOG_WORDS}{killed} process{'' if killed == 1 else 'es'} of its program\n"
    with contextlib.suppress(OSError):
        os.write(2, text.encode())


def _kill_all(marker: str, folders: Sequence[str], reported: dict[int, int]) -> int:
    own = os.getpid()

    def kill() -> Collection[int]:
        pointed_out = [pid for pid, started in reported.items() if process.start_time(pid) == started]
        below = [descendant for pid in pointed_out for descendant in process.descendants(pid)]
        for each in below:
            reported.setdefault(each, process.start_time(each) or 0)
        found = {*process.with_marker(marker), *pointed_out, *below} - {own}
        killed = [pid for pid in found if process.is_alive(pid) and process.send(pid, signal.SIGKILL)]
        return killed + container_cgroup.kill(folders)

    return process.kill_until_none(kill, _KILL_TIMEOUT_SECONDS)
