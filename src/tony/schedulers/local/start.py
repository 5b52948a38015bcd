"""Starting an application master so that it outlives whoever starts it, and knowing that it has come up."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from tony.bootstrap import command
from tony.errors import SchedulerError
from tony.linux import refusals
from tony.model.layout import JobFolder
from tony.schedulers.local import standby
from tony.schedulers.local.executors import describe_end
from tony.schedulers.local.inotify import FolderWatch

#: Seconds an application master may take to come up; it takes a tenth of one on an idle machine.
_PATIENCE = 60.0
#: Seconds between looks where the kernel does not tell of changes.
_DEAF = 0.05
#: Lines of its log that are shown if it does not come up, and bytes that are looked at for them.
_LINES, _TAIL = 10, 16 * 1024


def master_command(folder: JobFolder) -> list[str]:
    """The argv of a job's application master."""
    return command("tony.am.main", str(folder.path))


async def start_master(folder: JobFolder, argv: Sequence[str] | None = None) -> None:
    """Starts it, and returns once it lives (or has ended the job already).

    Args:
        argv: another program than the real one, for tests.

    Raises:
        SchedulerError: it did not come up; it is gone.
    """
    process = _spawn(argv, folder) if argv else _wake(folder) or _spawn(master_command(folder), folder)
    try:
        async with asyncio.timeout(_PATIENCE):
            await _wait_up(process, folder)
    except BaseException as error:
        process.kill()
        process.wait()
        if isinstance(error, TimeoutError):
            raise SchedulerError(_explain(folder, f"did not come up within {_PATIENCE:g} s")) from None
        raise
    # Somebody has to wait for it, or it stays a zombie as long as we live.
    with contextlib.suppress(RuntimeError):  # no thread is to be had any more
        threading.Thread(target=process.wait, name=f"reaper of {folder.job_id}", daemon=True).start()


def _wake(folder: JobFolder) -> standby.Standby | None:
    """Uses the fork that stands by, if there is one."""
    found = standby.take()
    if found:
        try:
            found.send(master_command(folder), folder.path, folder.am_log)
        except OSError:
            found.dismiss()
            return None
    return found


def _spawn(argv: Sequence[str], folder: JobFolder) -> subprocess.Popen[bytes]:
    """In a session of its own, so that no signal of our terminal reaches it."""
    log = os.open(folder.am_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        return subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder.path, start_new_session=True
        )
    except OSError as error:
        raise SchedulerError(f"the application master cannot be started: {refusals.said(error)}") from error
    finally:
        os.close(log)


async def _wait_up(process: subprocess.Popen[bytes] | standby.Standby, folder: JobFolder) -> None:
    news = asyncio.Event()
    with _listening(process.pid, folder.path, news) as pause:
        while not (folder.am.exists() or folder.summary.exists()):
            returncode = process.poll()
            if returncode is not None:
                if returncode == 0 or folder.summary.exists():
                    return
                raise SchedulerError(_explain(folder, describe_end(returncode)))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await news.wait()
            news.clear()


@contextlib.contextmanager
def _listening(pid: int, folder: Path, news: asyncio.Event) -> Iterator[float | None]:
    """Sets `news` when the process ends or the folder changes; answers how often to look all the same, if at all."""
    loop = asyncio.get_running_loop()
    pidfd = os.pidfd_open(pid)
    try:
        loop.add_reader(pidfd, news.set)
        try:
            watch = FolderWatch(folder, news.set)
        except OSError:
            yield _DEAF
        else:
            try:
                yield None
            finally:
                watch.close()
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)


def _explain(folder: JobFolder, what: str) -> str:
    lines = []
    with contextlib.suppress(OSError), folder.am_log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
        lines = file.read().decode("utf-8", errors="replace").splitlines()[-_LINES:]
    said = "its log is empty" if not lines else "the end of its log:\n" + "\n".join(f"  {line}" for line in lines)
    return f"the application master of {folder.job_id} {what}; {said}"
