"""The executor's handle on its meeting point: a process of ours that answers on the task's port, beside the program.

It is opened before the task registers. So whoever learns the address finds somebody there, or at worst waits in the
kernel's queue until the process has come up: nobody needs to be told when it is ready, and nobody has to try again. It
outlives the program, and goes with the session or with the executor.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from resource import struct_rusage

from tony.bootstrap import command
from tony.errors import InfraError
from tony.executor.reaper import Reaper
from tony.frameworks.base import meeting_folder
from tony.linux import oom_score, process, resource_limits
from tony.model.states import Meeting

log = logging.getLogger(__name__)


class RendezvousError(InfraError):
    """The meeting point cannot be opened."""


class Rendezvous:
    """One session's after the other's. `close` it in the end; that may be done twice.

    Attributes:
        pid: of the process; 0 while there is none.
    """

    def __init__(self, kind: Meeting | None, work_folder: str, reaper: Reaper) -> None:
        """Opens nothing yet."""
        self.pid = 0
        self._kind = kind
        self._work_folder = work_folder
        self._reaper = reaper

    @property
    def wanted(self) -> bool:
        """Whether the task has one."""
        return self._kind is not None

    def open(self, listening: socket.socket, session: int) -> None:
        """Starts an empty one for a session and ends the one before.

        Args:
            listening: what it is to serve; closed here, so that the port falls silent with the process.

        Raises:
            NoMeeting: it cannot be started.
        """
        self.close()
        try:
            with listening, oom_score.own().children(oom_score.OomScoreOffset.KEEPER):
                child = subprocess.Popen(
                    self._command(session),
                    stdin=listening.fileno(),
                    start_new_session=True,
                    preexec_fn=_die_with(os.getpid()),
                )
        except (OSError, subprocess.SubprocessError) as error:
            raise RendezvousError(
                f"the meeting point of the task cannot be started: {resource_limits.describe_os_error(error)}"
            ) from error
        child.returncode = 0  # the reaper waits for it, not this object
        self.pid = child.pid
        self._reaper.watch(child.pid, lambda status, usage: self._ended(child.pid, status, usage))
        log.info("session %d: process %d answers on the task's port", session, child.pid)

    def close(self) -> None:
        """Ends it. What it knew is gone."""
        pid, self.pid = self.pid, 0
        if pid:
            process.send(pid, signal.SIGKILL)

    def _command(self, session: int) -> list[str]:
        if self._kind is Meeting.STORE:
            return command("tony.executor.rendezvous_store")
        folder = meeting_folder(self._work_folder, session)
        os.makedirs(folder, exist_ok=True)
        # By this clock the file system judges what is left elsewhere: it may be an earlier session's.
        return command("tony.executor.rendezvous_relay", folder, self._work_folder, str(os.stat(folder).st_mtime_ns))

    def _ended(self, pid: int, status: int, usage: struct_rusage) -> None:
        if pid == self.pid:
            self.pid = 0
            log.error("the meeting point ended (wait status %d): programs that still look for it will fail", status)


def _die_with(parent: int) -> Callable[[], None]:
    def prepare() -> None:
        process.set_parent_death_signal(signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(127)  # it died before we asked to be told

    return prepare
