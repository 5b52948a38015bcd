"""Fork and exec of one process of a user program."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

from tony.executor.program.program_environment import LaunchFailed, check_sizes
from tony.executor.program.spawn_errors import describe_spawn_error
from tony.linux import cgroup, oom_score, process


def spawn(
    argv: Sequence[str], env: Mapping[str, str], folder: str, groups: Sequence[str], stdout: int, stderr: int
) -> int:
    """Start a process in its own session and process group, and in its control group before it runs any code.

    Call it from the one thread that lives as long as the executor: the process dies with that thread.

    Returns:
        Its pid; the caller waits for it.

    Raises:
        LaunchFailed: it cannot be started; the message is for the user.
    """
    check_sizes(argv, env)
    _check_folder(folder, groups)
    parent = os.getpid()

    def prepare() -> None:
        process.set_parent_death_signal(signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(127)  # the parent died before the signal was set
        cgroup.enter(groups, 0)

    try:
        with oom_score.own().children(oom_score.OomScoreOffset.PROGRAM):
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
        raise LaunchFailed(describe_spawn_error(argv[0], error, folder, env.get("PATH", os.defpath))) from error
    child.returncode = 0  # the reaper waits for it, not this object
    return child.pid


def _check_folder(folder: str, groups: Sequence[str]) -> None:
    if not os.path.isdir(folder):
        raise LaunchFailed(f"the working directory {folder} does not exist")
    if not os.access(folder, os.X_OK):
        raise LaunchFailed(f"the working directory {folder} cannot be entered: permission denied")
    for group in groups:
        if not os.access(f"{group}/cgroup.procs", os.W_OK):
            raise LaunchFailed(f"the control group {group} does not exist or is not writable")
