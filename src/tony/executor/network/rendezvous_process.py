"""The executor's handle on its rendezvous: a process of tony that listens on the task's port, next to the program.

It is started before the task registers. So a peer that learns the address finds it listening, or at worst waits in the
kernel's accept queue until the process is up: no readiness message and no retries are needed. It outlives the program,
and ends with the session or with the executor.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
from functools import partial
from resource import struct_rusage

from tony.errors import InfraError
from tony.executor.program.spawn import Reaper
from tony.frameworks.framework_interface import rendezvous_folder
from tony.isolated_interpreter import command
from tony.linux import oom_score, os_errors, process
from tony.model.setting_choices import RendezvousKind

log = logging.getLogger(__name__)


class RendezvousError(InfraError):
    """The rendezvous cannot be started."""


class Rendezvous:
    """The rendezvous processes of a task, one per session. `close` may be called twice.

    Attributes:
        pid: of the process; 0 while there is none.
    """

    def __init__(self, kind: RendezvousKind | None, work_folder: str, reaper: Reaper) -> None:
        self.pid = 0
        self._kind = kind
        self._work_folder = work_folder
        self._reaper = reaper

    @property
    def is_needed(self) -> bool:
        """Return True if the task has a rendezvous."""
        return self._kind is not None

    def open(self, listening: socket.socket, session: int) -> None:
        """Start an empty rendezvous for a session and stop the previous one.

        Args:
            listening: the socket to serve; closed here, so that the port closes with the process.

        Raises:
            RendezvousError: it cannot be started.
        """
        self.close()
        try:
            with listening, oom_score.get_own_score().children(oom_score.OomScoreOffset.KEEPER):
                child = subprocess.Popen(
                    self._build_command(session),
                    stdin=listening.fileno(),
                    start_new_session=True,
                    preexec_fn=partial(process.die_with_parent, os.getpid()),
                )
        except (OSError, subprocess.SubprocessError) as error:
            raise RendezvousError(
                f"cannot start the rendezvous of the task: {os_errors.describe_os_error(error)}"
            ) from error
        child.returncode = 0  # the reaper waits for it, not this object
        self.pid = child.pid
        self._reaper.watch(child.pid, lambda status, usage: self._on_ended(child.pid, status, usage))
        log.info("session %d: process %d answers on the task's port", session, child.pid)

    def close(self) -> None:
        """Stop the process; its contents are lost."""
        pid, self.pid = self.pid, 0
        if pid:
            process.send(pid, signal.SIGKILL)

    def _build_command(self, session: int) -> list[str]:
        if self._kind is RendezvousKind.STORE:
            return command("tony.executor.network.rendezvous_store")
        folder = rendezvous_folder(self._work_folder, session)
        os.makedirs(folder, exist_ok=True)
        # The file system's own time, for comparison with files elsewhere that may be of an earlier session.
        return command(
            "tony.executor.network.rendezvous_relay", folder, self._work_folder, str(os.stat(folder).st_mtime_ns)
        )

    def _on_ended(self, pid: int, status: int, usage: struct_rusage) -> None:
        if pid == self.pid:
            self.pid = 0
            log.error("the rendezvous process exited (wait status %d): programs that still need it will fail", status)
