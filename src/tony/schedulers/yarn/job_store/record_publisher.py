"""Write a job's history into the cluster's file system while the job runs, so that it outlives the AM's container.

    <staging>/jobs/<application id>/      mode 700
      job.json          user, time, and the resolved job file without secrets
      access.json       credentials of clients for the application master; deleted when the job has ended
      am.json           the AM's address, in case no ResourceManager can report it; deleted with access.json
      kill.json         a kill request from a client, left while the job had no application master
      events.<n>.jsonl  the event log of AM attempt n (`event_log_replication`); `events.<n>.closed.jsonl` when closed
      metrics.db        metrics: rewritten about once a minute while it is small, and at the end
      am.log            the AM's log, written when it ends
      summary.json      the last report; exists once the job has ended

All of it is written in threads: the AM never waits for HDFS, except for its event log, and for a moment at its end.
Failures of HDFS do not fail the job: what cannot be written now stays in the container's own files, and is written as
soon as possible. No file appears under its name before it is complete. Every AM attempt writes job.json and am.json.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from tony import clock
from tony.config.secret_masking import redact
from tony.errors import InfraError
from tony.hadoop.ipc.errors import HadoopError
from tony.linux.thread_pools import to_thread
from tony.model.codec import to_plain
from tony.model.layout import JobFolder
from tony.protocol.launch import JobCredentials
from tony.schedulers.yarn.job_store.event_log_replication import HDFS_BACKOFF, LASTING, HdfsJournal
from tony.schedulers.yarn.job_store.job_folder import JobFiles
from tony.schedulers.yarn.launch_payload import JobPayload

#: Seconds between attempts to write the last files.
_FINISH_RETRY_SECONDS = 0.5
#: Seconds that writing the last files may take.
_FINISH_SECONDS = 30.0
#: Maximum bytes of a stored request.
_MAX_REQUEST_BYTES = 1 << 16
#: Bytes of the AM's own log that are kept.
_LOG_TAIL_BYTES = 1 << 20
_log = logging.getLogger(__name__)


class RecordPublisher:
    """Publishes one job's history.

    Args:
        files: the job's folder in HDFS; closed at the end.
        own_log: the AM's own log.
        listens: content of `am.json`; None if the AM does not listen.
    """

    def __init__(
        self,
        files: JobFiles,
        payload: JobPayload,
        folder: JobFolder,
        own_log: Path,
        listens: Mapping[str, object] | None = None,
    ) -> None:
        self._files = files
        self._payload = payload
        self._folder = folder
        self._own_log = own_log
        self._listens = listens
        self._work: asyncio.Task[None] | None = None
        self._first_files: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start in the background. Without it `finish` writes only the last files."""
        self._work = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        for pause in HDFS_BACKOFF:
            # A thread cannot be stopped: `finish` waits for it, since two writers would conflict.
            self._first_files = asyncio.get_running_loop().create_task(to_thread(self._write_first_files))
            try:
                return await asyncio.shield(self._first_files)
            except InfraError as error:
                _log.error("cannot write the job's history to %s yet: %s", self._files.path, error)
                await asyncio.sleep(pause)

    def _write_first_files(self) -> None:
        self._files.make()
        if self._is_superseded():
            _log.warning("a later AM attempt has already published its address; leaving am.json and job.json unchanged")
            return
        if self._listens:
            self._files.put("am.json", dict(self._listens))
        # What clients need, without the AM's own secrets.
        access = JobCredentials(am=self._payload.credentials.executors, executors=self._payload.credentials.executors)
        self._files.put("access.json", to_plain(access))
        self._write_job()

    def _write_job(self) -> None:
        record = replace(self._payload.record, spec=redact(self._payload.record.spec))
        self._files.put("job.json", to_plain(record))
        self._take_kill_request()

    def _is_superseded(self) -> bool:
        """Return True if a later AM attempt has started: HDFS was unreachable for us alone, or we were suspended."""
        path = f"{self._files.path}/am.json"
        if not self._listens or self._files.client.find(path) is None:
            return False
        try:
            there = json.loads(self._files.client.read(path, most=_MAX_REQUEST_BYTES))
            return bool(there["attempt"] > self._listens["attempt"])
        except (ValueError, TypeError, KeyError):
            return False

    def _take_kill_request(self) -> None:
        """Take over a kill request that a client stored while there was no AM to send it to."""
        path = f"{self._files.path}/{self._folder.kill_request.name}"
        if not self._listens or self._files.client.find(path) is None:
            return
        draft = self._folder.kill_request.with_suffix(".new")
        draft.write_bytes(self._files.client.read(path, most=_MAX_REQUEST_BYTES))
        draft.rename(self._folder.kill_request)

    async def finish(self, journal: HdfsJournal | None) -> None:
        """Write the remaining files, and the summary last: when it is there, everything else is."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        give_up = clock.monotonic() + _FINISH_SECONDS - _FINISH_RETRY_SECONDS
        try:
            async with asyncio.timeout(_FINISH_SECONDS):
                if journal:
                    try:
                        await journal.finish()
                    except (InfraError, OSError) as error:
                        self._log_error(error)
                if self._first_files:
                    await asyncio.wait([self._first_files])
                await to_thread(self._finish, give_up)
        except TimeoutError:
            _log.error("could not complete the job's history in %s within %g s", self._files.path, _FINISH_SECONDS)

    def _finish(self, give_up: float) -> None:
        """Write the last files. A failure of one step does not stop the others, above all the summary."""
        steps: tuple[Callable[[], object], ...] = (
            lambda: self._files.delete("access.json"),
            self._finish_first_files,
            self._put_own_log,
            self._put_metrics,
            lambda: self._files.delete("am.json"),
            lambda: self._files.delete(self._folder.kill_request.name),
            self._put_summary,
        )
        for left, step in zip(range(len(steps) - 1, -1, -1), steps, strict=True):
            try:
                _call_with_retry(step, give_up - left)  # leaves each later step at least a second
            except (InfraError, OSError) as error:
                self._log_error(error)
        with contextlib.suppress(InfraError, OSError):  # it cannot even be opened, as has been logged
            self._files.close()

    def _log_error(self, error: Exception) -> None:
        _log.error("cannot complete the job's history in %s: %s", self._files.path, error)

    def _finish_first_files(self) -> None:
        """Write job.json if the job ended before the first files were written."""
        if self._work is None or (self._first_files and self._first_files.done() and not self._first_files.exception()):
            return
        self._files.make()
        if not self._is_superseded():
            self._write_job()

    def _put_summary(self) -> None:
        """Write the summary, unless an earlier AM attempt has: that one knew more than one that found the job ended."""
        if self._work is None and self._files.client.find(f"{self._files.path}/summary.json"):
            return
        self._files.send("summary.json", self._folder.summary.read_bytes())

    def _put_metrics(self) -> None:
        if self._folder.metrics.exists():
            self._files.send(self._folder.metrics.name, self._folder.metrics)

    def _put_own_log(self) -> None:
        with contextlib.suppress(FileNotFoundError), self._own_log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _LOG_TAIL_BYTES))
            self._files.send("am.log", file.read())


def _call_with_retry(step: Callable[[], object], give_up: float) -> None:
    """Call the step, and retry while there is time: a NameNode may just be starting."""
    while True:
        try:
            step()
        except HadoopError as error:
            if isinstance(error, LASTING) or clock.monotonic() + _FINISH_RETRY_SECONDS > give_up:
                raise
            time.sleep(_FINISH_RETRY_SECONDS)
        else:
            return
