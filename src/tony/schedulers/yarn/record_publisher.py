"""Writes a job's record into the cluster's file system while the job runs, so that it outlives the container.

    <staging>/jobs/<application id>/      its owner's alone
      job.json          who, when, and the resolved job file, secrets out
      access.json       how clients prove themselves to the application master; removed when the job has ended
      am.json           where it listens, for when no ResourceManager tells; goes with it
      kill.json         somebody's wish to end the job, left while it had no application master
      events.<n>.jsonl  the event log of AM attempt n (`event_log_replication`); `events.<n>.closed.jsonl` when closed
      metrics.db        what was measured: written anew about once a minute while it is small, and at the end
      am.log            what the application master said, when it ended
      summary.json      the last report; there once the job has ended

All of it is written in threads: the master never waits for HDFS, but for its events, and for a moment at its end.
Trouble of HDFS is no trouble of the job's: what cannot be written now waits in the container's own files, and is
written when it can be. Nothing appears under its name before it is whole. Every attempt writes its own beginning.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tony import clock
from tony.config.secret_names import redact
from tony.dataclass import replace
from tony.errors import InfraError
from tony.hadoop.ipc.errors import HadoopError
from tony.linux.threads import to_thread
from tony.model.codec import to_plain
from tony.model.layout import JobFolder
from tony.protocol.launch import JobCredentials
from tony.schedulers.yarn.event_log_replication import LASTING, HdfsJournal
from tony.schedulers.yarn.job_folder import JobFiles
from tony.schedulers.yarn.launch_payload import JobPayload

#: Seconds between two tries to begin: at first, and at most. And between two of the end's.
_SOON, _AGAIN, _SOON_AGAIN = 0.25, 5.0, 0.5
#: Seconds that the end of the record may take to get through.
_LAST = 30.0
#: Bytes of a request that somebody has left.
_LARGEST_REQUEST = 1 << 16
#: Bytes of the master's own log that are kept.
_LOG_TAIL = 1 << 20
_log = logging.getLogger(__name__)


class Publisher:
    """One job's record.

    Args:
        files: the job's folder in HDFS; closed in the end.
        own_log: what the application master says.
        listens: what clients have in `am.json`; None if the master does not listen.
    """

    def __init__(
        self,
        files: JobFiles,
        papers: JobPayload,
        folder: JobFolder,
        own_log: Path,
        listens: Mapping[str, object] | None = None,
    ) -> None:
        self._files = files
        self._papers = papers
        self._folder = folder
        self._own_log = own_log
        self._listens = listens
        self._work: asyncio.Task[None] | None = None
        self._beginning: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins, in the background. Without it `finish` writes the end alone."""
        self._work = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        pause = _SOON
        while True:
            # A thread cannot be stopped: `finish` waits for it, for two that begin would be in each other's way.
            self._beginning = asyncio.get_running_loop().create_task(to_thread(self._begin))
            try:
                return await asyncio.shield(self._beginning)
            except InfraError as error:
                _log.error("the job's record cannot be written to %s yet: %s", self._files.path, error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _AGAIN)

    def _begin(self) -> None:
        self._files.make()
        if self._is_superseded():
            _log.warning("a later application master has told already where it listens: its record stays as it is")
            return
        if self._listens:
            self._files.put("am.json", dict(self._listens))
        # What clients need, and nothing of the master's own.
        access = JobCredentials(am=self._papers.credentials.executors, executors=self._papers.credentials.executors)
        self._files.put("access.json", to_plain(access))
        self._write_job()

    def _write_job(self) -> None:
        record = replace(self._papers.record, spec=redact(self._papers.record.spec))
        self._files.put("job.json", to_plain(record))
        self._take_what_is_kept()

    def _is_superseded(self) -> bool:
        """Whether a later attempt has begun: HDFS was away for us alone, or we slept."""
        path = f"{self._files.path}/am.json"
        if not self._listens or self._files.client.find(path) is None:
            return False
        try:
            there = json.loads(self._files.client.read(path, most=_LARGEST_REQUEST))
            return bool(there["attempt"] > self._listens["attempt"])
        except (ValueError, TypeError, KeyError):
            return False

    def _take_what_is_kept(self) -> None:
        """Whoever found nobody to ask left it there, and finds us from now on."""
        path = f"{self._files.path}/{self._folder.kill_request.name}"
        if not self._listens or self._files.client.find(path) is None:
            return
        draft = self._folder.kill_request.with_suffix(".new")
        draft.write_bytes(self._files.client.read(path, most=_LARGEST_REQUEST))
        draft.rename(self._folder.kill_request)

    async def finish(self, journal: HdfsJournal | None) -> None:
        """Writes the rest, and the summary last: who sees that finds everything else."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        give_up = clock.monotonic() + _LAST - _SOON_AGAIN
        try:
            async with asyncio.timeout(_LAST):
                if journal:
                    try:
                        await journal.finish()
                    except (InfraError, OSError) as error:
                        self._tell(error)
                if self._beginning:
                    await asyncio.wait([self._beginning])
                await to_thread(self._finish, give_up)
        except TimeoutError:
            _log.error("the end of the job's record is not in %s after %g s", self._files.path, _LAST)

    def _finish(self, give_up: float) -> None:
        """That one thing cannot be written hinders nothing else: the summary above all."""
        steps: tuple[Callable[[], object], ...] = (
            lambda: self._files.delete("access.json"),
            self._finish_beginning,
            self._put_own_log,
            self._put_measured,
            lambda: self._files.delete("am.json"),
            lambda: self._files.delete(self._folder.kill_request.name),
            self._put_summary,
        )
        for left, step in zip(range(len(steps) - 1, -1, -1), steps, strict=True):
            try:
                _patiently(step, give_up - left)  # each of the later ones has a moment at least
            except (InfraError, OSError) as error:
                self._tell(error)
        with contextlib.suppress(InfraError, OSError):  # it cannot even be opened, as was said
            self._files.close()

    def _tell(self, error: Exception) -> None:
        _log.error("the end of the job's record cannot be written to %s: %s", self._files.path, error)

    def _finish_beginning(self) -> None:
        """It ended before this had begun: then who it was is all that is written of that."""
        if self._work is None or (self._beginning and self._beginning.done() and not self._beginning.exception()):
            return
        self._files.make()
        if not self._is_superseded():
            self._write_job()

    def _put_summary(self) -> None:
        """An earlier attempt that has told the end knew more of it than one that found it gone."""
        if self._work is None and self._files.client.find(f"{self._files.path}/summary.json"):
            return
        self._files.send("summary.json", self._folder.summary.read_bytes())

    def _put_measured(self) -> None:
        if self._folder.metrics.exists():
            self._files.send(self._folder.metrics.name, self._folder.metrics)

    def _put_own_log(self) -> None:
        with contextlib.suppress(FileNotFoundError), self._own_log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _LOG_TAIL))
            self._files.send("am.log", file.read())


def _patiently(step: Callable[[], object], give_up: float) -> None:
    """Does it, again and again while there is time: a NameNode may just be starting."""
    while True:
        try:
            step()
        except HadoopError as error:
            if isinstance(error, LASTING) or clock.monotonic() + _SOON_AGAIN > give_up:
                raise
            time.sleep(_SOON_AGAIN)
        else:
            return
