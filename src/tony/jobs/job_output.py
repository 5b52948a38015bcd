"""Output of a job's tasks, as far as there is some, or until the job has ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import nullcontext

from tony.history.job_record import record_of
from tony.jobs.log_files import Selection, find_log_files
from tony.jobs.log_lines import LogLine, group_lines
from tony.jobs.log_tail import LogTail
from tony.jobs.remote.log_fetcher import fetch_current_output, fetch_logs, find_remote_submitter
from tony.jobs.remote.log_mirror import describe_missing_bytes, find_missing_bytes
from tony.jobs.status import job_status
from tony.model.log_name import LogName
from tony.model.state_directory import Home
from tony.schedulers import registry

#: Seconds to collect lines before the next read. The first line after a silence is read at once; eight tasks with 200
#: lines/s each cause 50 reads a second instead of 1,500.
BATCH_SECONDS = 0.02
#: Seconds without output after which to check whether the AM is still alive.
_CHECK_SECONDS = 1.0


async def iterate_lines(
    home: Home,
    job_id: str,
    selection: Selection,
    notice: Callable[[str], None],
    *,
    follow: bool = False,
    keep: int | None = None,
) -> AsyncGenerator[list[LogLine], None]:
    """Yield a job's output in portions; with `follow` also new output until the job has ended.

    A slow consumer slows down reading; it loses only output that is rotated away twice meanwhile.

    Args:
        notice: called with what is missing, and why.
        keep: lines of each stream to begin with; None for all.

    Raises:
        UnknownJobError: there is no such job.
    """
    folder = home.job(job_id)
    record = record_of(home, job_id)
    is_remote = find_remote_submitter(home, record) is not None
    known: Mapping[LogName, int] = {}
    if is_remote and (keep is not None or not follow):
        await fetch_current_output(home, record, selection, notice)
    if keep is not None:
        known = {name: find_missing_bytes(folder.logs, name) for name in find_log_files(folder.logs, selection)}
    async with fetch_logs(home, record, selection, notice) if follow else nullcontext() as remote:
        with LogTail(folder.logs, selection, keep) as tail:
            tail.watch_folder(folder.path)
            changed = None
            while True:
                ended = not follow or folder.summary.exists()
                if ended and remote:
                    await remote.wait_until_finished()
                for portion in group_lines(tail.drain() if ended else tail.read_new_lines(changed)):
                    yield portion
                if ended:
                    if missing := describe_missing_bytes(folder.logs, find_log_files(folder.logs, selection), known):
                        notice(f"some output is missing: {missing}")
                    return
                await asyncio.sleep(BATCH_SECONDS)
                try:
                    async with asyncio.timeout(_CHECK_SECONDS):
                        changed = await tail.wait_change()
                except TimeoutError:
                    changed = None
                    if is_remote or registry.load_submitter(home, record).am_alive(folder) is False:
                        await job_status.load_report(home, job_id)
