"""Start an application master that outlives its client, and wait until it is running."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Sequence

from tony.errors import SchedulerError
from tony.isolated_interpreter import command
from tony.linux import os_errors
from tony.linux.files import read_tail
from tony.model.state_directory import JobFolder
from tony.schedulers.local.containers.local_container import describe_end
from tony.schedulers.local.supervision import am_prefork

#: Seconds an application master may take to start; it takes a tenth of a second on an idle machine.
_START_SECONDS = 60.0
#: Poll interval in seconds for the next AM attempt, if the first has died while starting.
_POLL_SECONDS = 0.02
#: Lines of its log that are shown if it does not start, and bytes that are read for them.
_LOG_LINES = 10
_LOG_TAIL_BYTES = 16 * 1024


def build_master_command(folder: JobFolder) -> list[str]:
    """Return the argv of a job's application master, under its supervisor."""
    return command("tony.schedulers.local.supervision.supervisor", str(folder.path))


async def start_master(folder: JobFolder, argv: Sequence[str] | None = None) -> None:
    """Start the application master, and return once it is running (or has already finished the job).

    Args:
        argv: another program than the real one, for fault injection. Its last argument is the number of a pipe to
            close when it is up.

    Raises:
        SchedulerError: it did not start, and has been killed.
    """
    process, ready = _use_prefork(folder, argv) or _spawn(argv or build_master_command(folder), folder)
    try:
        async with asyncio.timeout(_START_SECONDS):
            await _wait_up(process, ready, folder)
    except BaseException as error:
        _kill(process)
        process.wait()
        if isinstance(error, TimeoutError):
            raise SchedulerError(_explain(folder, f"did not start within {_START_SECONDS:g} s")) from None
        raise
    finally:
        os.close(ready)
    # It has to be waited for, or it stays a zombie as long as this process runs.
    with contextlib.suppress(RuntimeError):  # no thread can be started
        threading.Thread(target=process.wait, name=f"reaper of {folder.job_id}", daemon=True).start()


def _kill(process: subprocess.Popen[bytes] | am_prefork.PreforkAm) -> None:
    """Kill a starting AM and its supervisor: they are one process group."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def _use_prefork(folder: JobFolder, argv: Sequence[str] | None) -> tuple[am_prefork.PreforkAm, int] | None:
    """Use the pre-forked AM, if there is one."""
    found = None if argv else am_prefork.take()
    if found is None:
        return None
    try:
        return found, found.become(build_master_command(folder), folder.path, folder.am_log)
    except OSError:
        found.dismiss()
        return None


def _spawn(argv: Sequence[str], folder: JobFolder) -> tuple[subprocess.Popen[bytes], int]:
    """Start in a session of its own, so that no signal of our terminal reaches it."""
    log = os.open(folder.am_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    ready, up = os.pipe2(os.O_CLOEXEC)
    try:
        process = subprocess.Popen(
            [*argv, str(up)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder.path,
            pass_fds=[up],
            start_new_session=True,
        )
    except OSError as error:
        os.close(ready)
        raise SchedulerError(
            f"the application master cannot be started: {os_errors.describe_os_error(error)}"
        ) from error
    finally:
        os.close(up)
        os.close(log)
    return process, ready


async def _wait_up(process: subprocess.Popen[bytes] | am_prefork.PreforkAm, ready: int, folder: JobFolder) -> None:
    """Wait for the end of the pipe, which means up or dead. If dead, the supervisor may start the next AM attempt."""
    loop = asyncio.get_running_loop()
    ready_event = asyncio.Event()
    loop.add_reader(ready, ready_event.set)
    try:
        await ready_event.wait()
    finally:
        loop.remove_reader(ready)
    while not (folder.am.exists() or folder.summary.exists()):
        returncode = process.poll()
        if returncode is not None:
            if returncode == 0 or folder.summary.exists():
                return
            raise SchedulerError(_explain(folder, describe_end(returncode)))
        await asyncio.sleep(_POLL_SECONDS)


def _explain(folder: JobFolder, what: str) -> str:
    lines = []
    with contextlib.suppress(OSError):
        text = read_tail(folder.am_log, _LOG_TAIL_BYTES).decode("utf-8", errors="replace")
        lines = text.splitlines()[-_LOG_LINES:]
    tail = "its log is empty" if not lines else "end of its log:\n" + "\n".join(f"  {line}" for line in lines)
    return f"the application master of {folder.job_id} {what}; {tail}"
