"""Starts processes: those of a user program, and commands whose output is captured. Waits for them."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import re
import signal
import stat
import subprocess
import termios
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from resource import struct_rusage

from tony.executor.program.program_environment import LaunchFailedError, check_sizes
from tony.linux import container_cgroup, oom_score, os_errors, process

#: The first word of each command in a line: at its beginning, behind a separator, in backticks or `$(...)`.
_FIRST_WORDS = re.compile(r"(?:^|[`;&|(\n])\s*([^\s`;&|()<>\"']+)")
#: Characters that mean something to a shell, and hardly occur in a program's name.
_SHELL_CHARACTERS = re.compile(r"[\s$|&;<>*`'\"]")
#: Characters of a program's name that are shown.
_MAX_NAME_CHARACTERS = 200
#: Bytes that the kernel reads of a file's first line (linux/binfmts.h).
_FIRST_LINE_BYTES = 256
#: Bytes of the output that are kept.
_MAX_OUTPUT_BYTES = 1 << 20
#: Characters of standard error that are kept.
_MAX_ERROR_CHARACTERS = 500
#: Called with the wait status and the resource usage of a process (and of the children it waited for).
Ended = Callable[[int, struct_rusage], None]


def spawn(
    argv: Sequence[str],
    env: Mapping[str, str],
    folder: str,
    groups: Sequence[str],
    stdout: int,
    stderr: int,
    stdin: int = subprocess.DEVNULL,
    *,
    controls_terminal: bool = False,
) -> int:
    """Start a process in its own session and process group, and in its control group before it runs any code.

    Call it from the one thread that lives as long as the executor: the process dies with that thread.

    Args:
        controls_terminal: `stdin` is a terminal, which becomes the controlling one of the session.

    Returns:
        Its pid; the caller waits for it.

    Raises:
        LaunchFailedError: it cannot be started; the message is for the user.
    """
    check_sizes(argv, env)
    _check_folder(folder, groups)
    parent = os.getpid()

    def prepare() -> None:
        process.die_with_parent(parent)
        container_cgroup.enter(groups, 0)
        if controls_terminal:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    try:
        with oom_score.get_own_score().children(oom_score.OomScoreOffset.PROGRAM):
            return _start(argv, env, folder, stdout, stderr, prepare, stdin)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise LaunchFailedError(describe_spawn_error(argv[0], error, folder, env.get("PATH", os.defpath))) from error


def _start(
    argv: Sequence[str],
    env: Mapping[str, str],
    folder: str,
    stdout: int,
    stderr: int,
    prepare: Callable[[], None] | None = None,
    stdin: int = subprocess.DEVNULL,
) -> int:
    child = subprocess.Popen(
        argv,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        cwd=folder,
        env=env,
        start_new_session=True,
        preexec_fn=prepare,
    )
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
    with contextlib.suppress(OSError, ValueError):
        root = os.path.realpath(folder)
        place = os.path.realpath(os.path.join(root, word))
        mode = os.stat(place).st_mode
        if place.startswith(f"{root}/") and stat.S_ISREG(mode) and not os.access(place, os.X_OK):
            os.chmod(place, stat.S_IMODE(mode) | (mode & 0o444) >> 2)


def describe_spawn_error(program: str, error: Exception, folder: str, path: str) -> str:
    """Return one sentence without its full stop.

    Args:
        error: the exception raised by starting it.
        path: its PATH.
    """
    number = error.errno if isinstance(error, OSError) else None
    place = _find_program(program, folder, path)
    program = program if len(program) <= _MAX_NAME_CHARACTERS else f"{program[:_MAX_NAME_CHARACTERS]}…"
    if number == errno.ENAMETOOLONG:
        return f"command not found: {program} (the name is too long for the file system)"
    if number not in (errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.ENOTDIR, errno.E2BIG):
        return f"cannot start {program}: {os_errors.describe_os_error(error)}"
    if number == errno.E2BIG:
        return f"cannot start {program}: command and environment are too long together for Linux"
    if place is None:
        return f"command not found: {program} ({_explain_absence(program, folder)})"
    if number == errno.ENOEXEC:
        return f"not executable: {program} (neither a binary nor a script with a #! line)"
    interpreter = _read_interpreter(place)
    if number == errno.ENOENT:
        return f"cannot start {program}: {_explain_missing_interpreter(interpreter)}"
    return f"not executable: {program} ({_explain_permission(place, interpreter)})"


def _find_program(program: str, folder: str, path: str) -> str | None:
    """Return the path of the program; None if it does not exist."""
    if "/" in program:
        place = os.path.join(folder, program)
        return place if os.path.lexists(place) else None
    import shutil  # late: it loads every compression module

    return shutil.which(program, path=path) or shutil.which(program, os.F_OK, path)


def _explain_absence(program: str, folder: str) -> str:
    if "/" not in program:
        is_in_folder = os.path.exists(os.path.join(folder, program))
        hint = f"; the one in the working directory is ./{program}" if is_in_folder else ""
        if _SHELL_CHARACTERS.search(program):
            hint = "; no shell reads the command: for spaces, variables and pipes write bash -c '...'"
        return f"not on PATH{hint}"
    return "no such file" if os.path.isabs(program) else "no such file in the working directory"


def _read_interpreter(place: str) -> str | None:
    """Return the interpreter line of a script without `#!`; None if it is no script or cannot be read."""
    try:
        with open(place, "rb") as file:
            line = file.readline(_FIRST_LINE_BYTES)
    except OSError:
        return None
    return os.fsdecode(line[2:]).removesuffix("\n").strip(" \t") if line.startswith(b"#!") else None


def _explain_missing_interpreter(interpreter: str | None) -> str:
    if interpreter is None:
        return "its interpreter or loader is missing (a dangling symlink, or a binary for another system)"
    if interpreter.endswith("\r"):
        return "its #! line ends with a Windows line ending (\\r\\n), and Linux takes the \\r as part of the name"
    return f"its #! line names {interpreter.split()[0] if interpreter else 'nothing'}, which does not exist"


def _explain_permission(place: str, interpreter: str | None) -> str:
    if os.path.isdir(place):
        return "it is a directory"
    if not os.access(place, os.X_OK):
        return "permission denied; to make it executable: chmod +x"
    if interpreter:
        return f"permission denied; check the permissions of {interpreter.split()[0]}, named in its #! line"
    return "permission denied; check whether the file system is mounted noexec"


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """The output of a command and its exit status; negative: killed by that signal."""

    status: int
    out: str
    err: str


async def run_captured(
    argv: Sequence[str],
    environment: Mapping[str, str],
    folder: str,
    reaper: Reaper,
    timeout: float,
    on_start: Callable[[int], None] = lambda pid: None,
) -> CommandOutput:
    """Run a command until it exits.

    Args:
        timeout: seconds that it may take.
        on_start: called with its pid.

    Raises:
        LaunchFailedError: it cannot be started.
        TimeoutError: it took too long and was killed.
    """
    ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    (out, out_writing), (err, err_writing) = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
    try:
        # No Python code may run between fork and exec: locks that other threads hold stay locked in the child.
        pid = _start(argv, environment, folder, out_writing, err_writing)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        os.close(out)
        os.close(err)
        text = describe_spawn_error(argv[0], error, folder, environment.get("PATH", os.defpath))
        raise LaunchFailedError(text) from error
    finally:
        os.close(out_writing)
        os.close(err_writing)

    def on_exit(status: int, usage: object) -> None:
        if not ended.done():
            ended.set_result(status)

    on_start(pid)
    reaper.watch(pid, on_exit)
    try:
        async with asyncio.timeout(timeout), asyncio.TaskGroup() as group:
            texts = [group.create_task(_read_text(reading)) for reading in (out, err)]
            status = await ended
    except BaseException:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        raise
    error_text = " ".join(texts[1].result().split())[-_MAX_ERROR_CHARACTERS:]
    return CommandOutput(os.waitstatus_to_exitcode(status), texts[0].result(), error_text)


async def _read_text(reading: int) -> str:
    """Read a pipe to its end; return the first part."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb", 0)
    )
    data = bytearray()
    try:
        while piece := await reader.read(1 << 16):
            data += piece[: _MAX_OUTPUT_BYTES - len(data)]
    finally:
        transport.close()
    return data.decode(errors="replace")
