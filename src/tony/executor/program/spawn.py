"""Fork and exec of one process of a user program, and the execute bits of the files it runs."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import stat
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from resource import struct_rusage

from tony.executor.program.program_environment import LaunchFailedError, check_sizes
from tony.executor.program.spawn_errors import describe_spawn_error
from tony.linux import container_cgroup, oom_score, process


def spawn(
    argv: Sequence[str], env: Mapping[str, str], folder: str, groups: Sequence[str], stdout: int, stderr: int
) -> int:
    """Start a process in its own session and process group, and in its control group before it runs any code.

    Call it from the one thread that lives as long as the executor: the process dies with that thread.

    Returns:
        Its pid; the caller waits for it.

    Raises:
        LaunchFailedError: it cannot be started; the message is for the user.
    """
    check_sizes(argv, env)
    _check_folder(folder, groups)
    parent = os.getpid()

    def prepare() -> None:
        process.set_parent_death_signal(signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(127)  # the parent died before the signal was set
        container_cgroup.enter(groups, 0)

    try:
        with oom_score.get_own_score().children(oom_score.OomScoreOffset.PROGRAM):
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=folder,
                env=env,
                start_new_session=True,
                preexec_fn=prepare,
            )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise LaunchFailedError(describe_spawn_error(argv[0], error, folder, env.get("PATH", os.defpath))) from error
    child.returncode = 0  # the reaper waits for it, not this object
    return child.pid


def _check_folder(folder: str, groups: Sequence[str]) -> None:
    if not os.path.isdir(folder):
        raise LaunchFailedError(f"the working directory {folder} does not exist")
    if not os.access(folder, os.X_OK):
        raise LaunchFailedError(f"the working directory {folder} cannot be entered: permission denied")
    for group in groups:
        if not os.access(f"{group}/cgroup.procs", os.W_OK):
            raise LaunchFailedError(f"the control group {group} does not exist or is not writable")


#: Called with the wait status and the resource usage of a process (and of the children it waited for).
Ended = Callable[[int, struct_rusage], None]


class Reaper:
    """Waits for children on each SIGCHLD. Lives on the event loop of the main thread."""

    def __init__(self) -> None:
        self._watched: dict[int, Ended] = {}
        self._on_other_exit: Ended = lambda status, usage: None

    def open(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._reap)
        self._reap()

    def close(self) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGCHLD)

    def watch(self, pid: int, ended: Ended) -> None:
        """Report the exit of a child on the event loop. Call it before the loop runs again."""
        self._watched[pid] = ended

    def adopt(self, ended: Ended) -> None:
        """Report the exits of all other children: processes that a program left behind."""
        self._on_other_exit = ended

    def _reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._watched.pop(pid, self._on_other_exit)(status, usage)


#: The first word of each command in a line: at its beginning, behind a separator, in backticks or `$(...)`.
_FIRST_WORDS = re.compile(r"(?:^|[`;&|(\n])\s*([^\s`;&|()<>\"']+)")


def make_executable(command: str, folder: str) -> None:
    """Give the files that a command line runs the execute bits that go with their read bits.

    Only paths below the working directory, which belongs to this task alone. Failures are ignored: the shell will
    report the problem.

    Args:
        command: as passed to bash.
        folder: the working directory.
    """
    for word in dict.fromkeys(_FIRST_WORDS.findall(command)):
        if "/" in word:  # bash looks up others on PATH
            _set_bits(word, folder)


def _set_bits(word: str, folder: str) -> None:
    with suppress(OSError, ValueError):
        root = os.path.realpath(folder)
        place = os.path.realpath(os.path.join(root, word))
        mode = os.stat(place).st_mode
        if place.startswith(f"{root}/") and stat.S_ISREG(mode) and not os.access(place, os.X_OK):
            os.chmod(place, stat.S_IMODE(mode) | (mode & 0o444) >> 2)
