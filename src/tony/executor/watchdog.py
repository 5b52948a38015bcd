"""The watchdog: a second, tiny process that ends the program when the executor cannot any more.

It reads from a pipe whose other end only the executor has. If that ends without a farewell, the executor was killed:
then everything it had started is killed, until nothing is left, by every handle there is: control group, marker in the
environment, and processes that the executor has pointed out because they carry no marker.

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
from collections.abc import Collection, Iterable, Sequence

from tony.bootstrap import command
from tony.linux import cgroup, oom, process

log = logging.getLogger(__name__)

_FAREWELL = b"bye\n"
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
        try:
            with oom.own().children(oom.Share.KEEPER):
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
        try:
            for pid, started in told.items():
                os.write(self._pipe, b"%d %d\n" % (pid, started))
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
    heard = b""
    while chunk := os.read(pipe, 65536):
        heard += chunk
    if not heard.endswith(_FAREWELL):
        killed = _end_all(marker, folders, _parse(heard))
        text = f"the executor died; the watchdog ended {killed} process{'' if killed == 1 else 'es'} of its program\n"
        with contextlib.suppress(OSError):
            os.write(2, text.encode())
    cgroup.remove(folders)


def _parse(heard: bytes) -> dict[int, int]:
    told = {}
    for line in heard.split(b"\n"):
        pid, _, started = line.partition(b" ")
        if pid.isdigit() and started.isdigit():
            told[int(pid)] = int(started)
    return told


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
