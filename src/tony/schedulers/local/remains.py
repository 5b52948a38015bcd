"""Ending all that a container or a whole job has started, by every handle there is on it.

Programs and what they start carry `TONY_TASK=<job>/<container>/...` in their environment, executors
`TONY_EXECUTOR=<job>/<container>/`; a control group, where there is one, holds what has cleared its environment; and
what has lost its parent becomes a child of the application master, which is a subreaper.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from tony.linux import cgroup, process

EXECUTOR_VARIABLE = "TONY_EXECUTOR"
_MARKERS = ("TONY_TASK", EXECUTOR_VARIABLE)
#: Seconds that an executor's watchdog may take to end what the executor left behind.
_WATCHDOG = 3.0


def executor_marker(job_id: str, container: str) -> str:
    """What an executor has in its environment. The last slash keeps c-1 and c-10 apart."""
    return f"{job_id}/{container}/"


def end_container(job_id: str, container: str, groups: Sequence[str]) -> bool:
    """Ends everything of a container whose executor has ended, and removes its control group. Blocks for seconds.

    Returns:
        False if something does not die (it is stuck in the kernel); to be called again.
    """
    marker = executor_marker(job_id, container)
    _leave_to_watchdogs(marker)
    return _end(marker, groups)


def end_job(job_id: str, groups: Sequence[str]) -> bool:
    """Ends everything of a job, executors first; otherwise as `end_container`."""
    marker = f"{job_id}/"
    marked = process.with_marker(f"{EXECUTOR_VARIABLE}={marker}")
    helpers = {below for pid in marked for below in process.descendants(pid)}
    for pid in marked:
        if pid not in helpers:
            process.send(pid, signal.SIGKILL)
    _leave_to_watchdogs(marker)
    return _end(marker, groups)


def end_strays(executors: Collection[int]) -> bool:
    """Kills what executors left behind that lost its parent: children of ours in sessions of their own.

    Only for a process whose other children (if any) are in its own session. Called on the thread that starts
    executors, so that none is taken for a stray between its start and its entry among `executors`.

    Returns:
        False if some were killed and are not dead yet; to be called again.
    """
    own_session = os.getsid(0)
    all_dead = True
    for pid in _children():
        if pid in executors:
            continue
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            if os.getsid(pid) != own_session:
                os.kill(pid, signal.SIGKILL)  # a child keeps its pid until we wait for it: nobody else is hit
                all_dead = os.waitpid(pid, os.WNOHANG)[0] == pid and all_dead
    return all_dead


def note_groups(file: Path, groups: Sequence[str]) -> None:
    """Writes control groups down for whoever cleans up should we die.

    Raises:
        OSError: the file system refuses.
    """
    if groups:
        with file.open("a", encoding="utf-8") as out:
            out.writelines(f"{group}\n" for group in groups)


def noted_groups(file: Path) -> tuple[str, ...]:
    """The control groups that are written down; those that are gone included."""
    try:
        return tuple(file.read_text(encoding="utf-8").splitlines())
    except OSError:
        return ()


def _leave_to_watchdogs(marker: str) -> None:
    """Waits until the watchdogs of dead executors are done: they know processes that nobody else can find."""
    deadline = time.monotonic() + _WATCHDOG
    pause = 0.001
    while process.with_marker(f"{EXECUTOR_VARIABLE}={marker}") and time.monotonic() < deadline:
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def _end(marker: str, groups: Sequence[str]) -> bool:
    cgroup.kill_all(groups)
    for variable in _MARKERS:
        process.sweep(f"{variable}={marker}")
    left = any(process.with_marker(f"{variable}={marker}") for variable in _MARKERS)
    return cgroup.remove(groups) and not left


def _children() -> list[int]:
    own = os.getpid()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as stat:
                if int(stat.read().rpartition(b")")[2].split()[1]) == own:
                    found.append(int(name))
    return found
