"""A job's output as a stream, for programs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import nullcontext

from tony.history.job_record import record_of
from tony.jobs import facts
from tony.jobs.log_fetcher import bring, bringing, far_submitter
from tony.jobs.log_names import Selection
from tony.jobs.log_reader import LogLine, portions
from tony.jobs.log_tail import LogTail
from tony.model.layout import Home

log = logging.getLogger(__name__)

#: Seconds for which more lines gather before they are read.
_GATHER = 0.02
#: Seconds without a line after which it is looked whether anybody is left to print one.
_LOOK_AGAIN = 1.0


async def lines(
    home: Home, job_id: str, selection: Selection, *, follow: bool = False, keep: int | None = None
) -> AsyncGenerator[list[LogLine], None]:
    """What programs printed, in portions; with `follow` also what they will print, until the job has ended.

    A slow taker slows the reading and loses nothing but what is rotated away meanwhile.

    Args:
        keep: lines of each stream to begin with; None for all.

    Raises:
        UnknownJobError: there is no such job.
    """
    folder = home.job(job_id)
    record = record_of(home, job_id)
    far = far_submitter(home, record) is not None
    if far and (keep is not None or not follow):
        await bring(home, record, selection, log.warning)
    async with bringing(home, record, selection, log.warning) if follow else nullcontext() as remote:
        with LogTail(folder.logs, selection, keep) as tail:
            tail.also_watch(folder.path)
            changed = None
            while True:
                ended = not follow or folder.summary.exists()
                if ended and remote:
                    await remote.finished()
                for portion in portions(tail.drain() if ended else tail.new_lines(changed)):
                    yield portion
                if ended:
                    return
                await asyncio.sleep(_GATHER)
                try:
                    async with asyncio.timeout(_LOOK_AGAIN):
                        changed = await tail.wait_change()
                except TimeoutError:
                    changed = None
                    if far or facts.submitter_of(home, record).am_alive(folder) is False:
                        await facts.load_report(home, job_id)
