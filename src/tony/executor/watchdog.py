"""The watchdog: a second, tiny process that ends the program when the executor cannot any more.

It reads from a pipe whose other end only the executor has. If that ends without a farewell, the executor was killed:
then everything it had started is killed, until nothing is left, by every handle there is: control group, marker in the
environment, and processes that the executor has pointed out because they carry no marker. The same is done if the
executor stands still beyond its lease: it may be frozen, and its program not.

It also removes the control group in the end: whoever made it may be dead by then.
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

from tony.bootstrap import command
from tony.linux import cgroup, oom_score, process

log = logging.getLogger(__name__)

_FAREWELL = b"bye\n"
_LEASE = b"lease"
#: Seconds between two looks at the clock. What waits for a time does not notice that the machine has slept meanwhile.
_LOOK = 10.0
#: Seconds to go on killing what does not die (stuck in the kernel).
_PATIENCE = 600.0
#: Signals that are meant for the executor or its program; the watchdog ends with them or when it is killed.
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE)


class Watchdog:
    """The executor's handle on its watchdog.

    Attributes:
        pid: of the present watchdog; 0 before the first.
    """

    def __init__(self, marker: str, folders: Sequence[str]) -> None:
        """Nothing runs yet.

        Args:
            marker: `TONY_TASK=...` as the program's environment has it.
            folders: of the program's control group.
        """
        self.pid = 0
        self._marker = marker
        self._folders = tuple(folders)
        self._pipe = -1
        self._told: dict[int, int] = {}
        self._lease = b""
        self._process: subprocess.Popen[bytes] | None = None

    def fork(self) -> None:
        """Starts the first one, as a copy of this process. To be called early: the copy keeps what is loaded."""
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
        """Starts another one after the first was killed. A fresh interpreter: our copy would have to mind the loop.

        Raises:
            OSError: it cannot be started.
        """
        self._close()
        reading, writing = os.pipe2(os.O_CLOEXEC)
        self._open(writing)
        told, self._told = self._told, {}
        self._tell(told)  # it waits in the pipe: the new one knows all from its first moment
        self._write(self._lease)
        try:
            with oom_score.own().children(oom_score.OomScoreOffset.KEEPER):
                self._process = subprocess.Popen(
                    command("tony.executor.watchdog", self._marker, *self._folders),
                    stdin=reading,
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,
                )
        finally:
            os.close(reading)
        self._process.returncode = 0  # the reaper waits for it, not this object
        self.pid = self._process.pid

    def point_out(self, pids: Iterable[int]) -> None:
        """Names processes of the program that carry no marker. Repeating one does nothing."""
        found = {pid: started for pid in pids if (started := process.start_time(pid)) is not None}
        self._tell({pid: started for pid, started in found.items() if self._told.get(pid) != started})

    def lease(self, until: float, patience: float) -> None:
        """We live, and are to have ended our program by then: an executor that says no more stands still.

        Args:
            until: by the clock that goes on while the machine sleeps (CLOCK_BOOTTIME).
            patience: seconds, in which the machine does not sleep, that we may take for it afterwards.
        """
        self._lease = b"%s %d %d\n" % (_LEASE, int(until * 1000), int(patience * 1000))
        self._write(self._lease)

    def dismiss(self, patience: float = 0.0) -> None:
        """Everything has ended in good order: so may the watchdog. May be called twice.

        Args:
            patience: seconds to wait for its end, so that whoever started us finds nothing of ours. Blocks. Only where
                nobody else waits for our children.
        """
        if self._pipe >= 0:
            with contextlib.suppress(OSError):
                os.write(self._pipe, _FAREWELL)
        self._close()
        if patience > 0 and self.pid:
            self._wait_gone(patience)

    def _wait_gone(self, patience: float) -> None:
        with contextlib.suppress(OSError):  # it was killed, and somebody has waited for it
            pidfd = os.pidfd_open(self.pid)
            try:
                poll = select.poll()
                poll.register(pidfd, select.POLLIN)
                if poll.poll(patience * 1000):
                    os.waitpid(self.pid, 0)
            finally:
                os.close(pidfd)

    def _open(self, pipe: int) -> None:
        os.set_blocking(pipe, False)  # one that does not read shall not stop us
        self._pipe = pipe

    def _tell(self, told: dict[int, int]) -> None:
        self._told.update(told)
        for pid, started in told.items():
            self._write(b"%d %d\n" % (pid, started))

    def _write(self, line: bytes) -> None:
        if self._pipe < 0 or not line:
            return  # there is none, or there is none yet
        try:
            os.write(self._pipe, line)
        except OSError as error:
            log.warning("the watchdog does not listen: %s", error)

    def _close(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1


def main() -> int:
    """A watchdog that is started anew: the pipe is its standard input; arguments are marker and folders."""
    _watch(0, sys.argv[1], sys.argv[2:])
    return 0


def _watch(pipe: int, marker: str, folders: Sequence[str]) -> None:
    for signum in _IGNORED:
        signal.signal(signum, signal.SIG_IGN)
    heard = _Heard()
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    while True:
        if not poll.poll(heard.waiting()):
            if heard.is_over():
                _end_and_say("the executor stands still", marker, folders, heard.told)
        elif chunk := os.read(pipe, 65536):
            heard.take(chunk)
        else:
            break
    if not heard.farewell:
        _end_and_say("the executor died", marker, folders, heard.told)
    cgroup.remove(folders)


class _Heard:
    """What the executor has said.

    Attributes:
        told: processes that it has pointed out, and when each was started.
        farewell: that it ends in good order.
    """

    def __init__(self) -> None:
        self.told: dict[int, int] = {}
        self.farewell = False
        self._rest = b""
        self._lease: tuple[float, float] | None = None
        self._patience_from: float | None = None

    def take(self, chunk: bytes) -> None:
        """More of it came."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            match line.split():
                case [word, until, patience] if word == _LEASE and until.isdigit() and patience.isdigit():
                    self._lease, self._patience_from = (int(until) / 1000, int(patience) / 1000), None
                case [pid, started] if pid.isdigit() and started.isdigit():
                    self.told[int(pid)] = int(started)
                case _:
                    self.farewell = line + b"\n" == _FAREWELL

    def waiting(self) -> float | None:
        """Milliseconds to wait for more of it; None: for ever."""
        if self._lease is None:
            return None
        until, patience = self._lease
        left = until - time.clock_gettime(time.CLOCK_BOOTTIME)
        if left <= 0:
            if self._patience_from is None:
                self._patience_from = time.monotonic()
            left = self._patience_from + patience - time.monotonic()
        return max(0.0, min(left, _LOOK)) * 1000 + 1

    def is_over(self) -> bool:
        """Whether it should have ended its program by now. Said once for each lease."""
        if self._lease is None or self._patience_from is None:
            return False
        is_over = time.monotonic() - self._patience_from >= self._lease[1]
        if is_over:
            self._lease = None
        return is_over


def _end_and_say(why: str, marker: str, folders: Sequence[str], told: dict[int, int]) -> None:
    killed = _end_all(marker, folders, told)
    text = f"{why}; the watchdog ended {killed} process{'' if killed == 1 else 'es'} of its program\n"
    with contextlib.suppress(OSError):
        os.write(2, text.encode())


def _end_all(marker: str, folders: Sequence[str], told: dict[int, int]) -> int:
    own = os.getpid()

    def kill() -> Collection[int]:
        pointed_out = [pid for pid, started in told.items() if process.start_time(pid) == started]
        below = [each for pid in pointed_out for each in process.descendants(pid)]
        for each in below:
            told.setdefault(each, process.start_time(each) or 0)
        found = {*process.with_marker(marker), *pointed_out, *below} - {own}
        killed = [pid for pid in found if process.is_alive(pid) and process.send(pid, signal.SIGKILL)]
        return killed + cgroup.kill(folders)

    return process.kill_until_none(kill, _PATIENCE)
