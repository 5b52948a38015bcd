"""An application master that is pre-forked while the client still reads the job file.

The command line forks it before anything else is imported, so that a second core loads the modules of an AM and its
executors. If no job is submitted, the fork is killed.
"""

from __future__ import annotations

import gc
import os
import signal
import sys

from tony import isolated_interpreter

TYPE_CHECKING = False  # this module is imported before everything else, so it imports nothing slow
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path
    from typing import NoReturn

#: Signals that a terminal sends to a whole process group.
_TERMINAL_SIGNALS = {signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTSTP}
#: Variables that make an interpreter slow or verbose; our fresh interpreters ignore them.
_SPECIAL_VARIABLES = frozenset(
    {"PYTHONASYNCIODEBUG", "PYTHONMALLOC", "PYTHONTRACEMALLOC", "PYTHONPROFILEIMPORTTIME", "PYTHONVERBOSE"}
)


class PreforkAm:
    """The client's handle on a pre-forked AM.

    Attributes:
        pid: of the process, also its session's id.
        returncode: as in `subprocess.Popen`: None until the end was seen.
    """

    def __init__(self, pid: int, commands: int, ready: int) -> None:
        """Take over our ends of two pipes."""
        self.pid = pid
        self.returncode: int | None = None
        self._commands = commands
        self._ready = ready

    def become(self, argv: Sequence[str], folder: Path, log: Path) -> int:
        """Turn it into the program of an `isolated_interpreter.command`; appends the number of a pipe as last argument.

        Args:
            folder: its working directory.
            log: file for its output.

        Returns:
            The other end of that pipe, now the caller's.

        Raises:
            OSError: it is dead.
        """
        with open(self._commands, "wb") as commands:
            self._commands = -1
            commands.write(os.fsencode("\0".join((str(folder), str(log), *argv))))
        ready, self._ready = self._ready, -1
        return ready

    def dismiss(self) -> None:
        """Kill it: it is not needed."""
        for pipe in (self._commands, self._ready):
            if pipe >= 0:
                os.close(pipe)
        self._commands = self._ready = -1
        self.kill()
        self.wait()

    def poll(self) -> int | None:
        """Return its exit code; None as long as it runs."""
        return self._wait(os.WNOHANG)

    def wait(self) -> int | None:
        """Wait for its end."""
        return self._wait(0)

    def kill(self) -> None:
        """Send SIGKILL, also to an AM below it."""
        if self.returncode is None:
            for kill in (os.killpg, os.kill):  # it may not lead a group yet
                try:
                    kill(self.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def _wait(self, how: int) -> int | None:
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, how)
            except ChildProcessError:  # it has been reaped already
                self.returncode = 0
            else:
                self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode


_present: PreforkAm | None = None


def prepare() -> None:
    """Fork an AM. Does nothing where a fork is unsafe or fails. Call it before the process has done anything else."""
    global _present
    if not _is_plain():
        return
    pipes: list[int] = []
    # Signals of the terminal are for the client alone, also before the fork has left our session.
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, _TERMINAL_SIGNALS)
    try:
        for _ in range(2):
            pipes += os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
        if pid == 0:
            _wait(pipes[0], pipes[3], masked)
        os.close(pipes[0])
        os.close(pipes[3])
        _present = PreforkAm(pid, pipes[1], pipes[2])
    except OSError:
        for pipe in pipes:
            os.close(pipe)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)


def _is_plain() -> bool:
    """Return True if a fork of this interpreter is like a fresh one: one thread, no tracing, no special options."""
    try:
        threads = len(os.listdir("/proc/self/task"))
    except OSError:
        return False
    watched = sys.gettrace() or sys.getprofile() or "coverage" in sys.modules
    special = sys.warnoptions or sys._xoptions or not _SPECIAL_VARIABLES.isdisjoint(os.environ)
    return threads == 1 and not watched and not special


def take() -> PreforkAm | None:
    """Return the pre-forked AM, if any, to be used or dismissed by the caller."""
    global _present
    taken, _present = _present, None
    return taken


def _load() -> None:
    """Load the modules of AM and executors, and do in advance what each of them would have to do."""
    from tony.schedulers.local.supervision.supervisor import MASTER  # late: not in the client's process

    isolated_interpreter.load(*MASTER)
    from tony.model import codec  # late: not in the client's process
    from tony.model.submission_record import JobRecord
    from tony.protocol.launch import JobCredentials
    from tony.schedulers.local.containers.fork_server import load_executor

    load_executor()
    codec.prepare(JobRecord, JobCredentials)


def _wait(commands: int, ready: int, masked: set[int | signal.Signals]) -> NoReturn:
    """Run the fork. It must never return, or a second client would run."""
    try:
        os.setsid()  # no signal of the client's terminal reaches it from now on
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # drops an earlier one; the AM handles it again
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
        gc.disable()
        _forget_client({commands, ready})
        _load()
        with open(commands, "rb") as pipe:
            content = pipe.read()
        if not content:
            os._exit(0)
        _become_am(content, ready)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)


def _forget_client(kept: Collection[int]) -> None:
    """Release everything that belongs to the client: its streams, and inherited files (a shell's `9>lock`)."""
    from tony.linux.file_descriptors import close_others  # late: not in the client's process

    nothing = os.open(os.devnull, os.O_RDWR)
    for target in range(3):
        os.dup2(nothing, target)
    close_others(kept)
    isolated_interpreter.seclude()


def _become_am(content: bytes, ready: int) -> NoReturn:
    from tony.linux import process_identity  # late: not in the client's process

    folder, log, *argv = (os.fsdecode(word) for word in content.split(b"\0"))
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    for target in (1, 2):
        os.dup2(output, target)
    os.close(output)
    os.chdir(folder)
    process_identity.assume(f"tony.schedulers.local.supervision.supervisor {folder}")
    isolated_interpreter.settle()
    isolated_interpreter.enter([*argv, str(ready)])
