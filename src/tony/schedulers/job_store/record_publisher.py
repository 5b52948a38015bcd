"""Write a job's history into its store while the job runs, so that it outlives the AM's container.

    <staging>/jobs/<job id>/
      job.json          user, time, and the resolved job file without secrets
      access.json       credentials of clients for the application master; deleted when the job has ended
      am.json           the AM's address, in case the scheduler cannot report it; deleted with access.json
      kill.json         a kill request from a client, left while the job had no application master
      events.<n>.jsonl  the event log of AM attempt n (`event_log_replication`); `events.<n>.closed.jsonl` when closed
      output.<n>.<i>.jsonl  the ends of tasks' output, received by AM attempt n (`output_store`)
      metrics.db        metrics: rewritten about once a minute while it is small, and at the end
      am.log            the AM's log, written when it ends
      summary.json      the last report; exists once the job has ended

All of it is written in threads: the AM never waits for the store, except for its event log, and for a moment at its
end. Failures of the store do not fail the job: what cannot be written now stays in the container's own files, and is
written as soon as possible. Every AM attempt writes job.json and am.json.
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
from tony.errors import InfraError
from tony.linux.files import read_tail
from tony.linux.thread_pools import to_thread
from tony.model.codec import to_plain
from tony.model.masking import redact
from tony.model.state_directory import JobFolder
from tony.model.submission_record import JobRecord
from tony.protocol.launch import AmCredentials, JobCredentials
from tony.schedulers.job_store.event_log_replication import STORE_BACKOFF, ReplicatedJournal
from tony.schedulers.job_store.job_store import ACCESS_FILE, JobStore

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
        store: the job's files; closed at the end.
        credentials: those of the executors are for clients, too.
        own_log: the AM's own log.
    """

    def __init__(
        self,
        store: JobStore,
        record: JobRecord,
        credentials: AmCredentials,
        folder: JobFolder,
        own_log: Path,
    ) -> None:
        self._store = store
        self._record = record
        self._credentials = credentials
        self._folder = folder
        self._own_log = own_log
        self._listens: Mapping[str, object] | None = None
        self._work: asyncio.Task[None] | None = None
        self._first_files: asyncio.Task[None] | None = None

    def start(self, listens: Mapping[str, object] | None) -> None:
        """Start in the background. Without it `finish` writes only the last files.

        Args:
            listens: content of `am.json`; None if the AM does not listen.
        """
        self._listens = listens
        self._work = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        for pause in STORE_BACKOFF:
            # A thread cannot be stopped: `finish` waits for it, since two writers would conflict.
            self._first_files = asyncio.get_running_loop().create_task(to_thread(self._write_first_files))
            try:
                return await asyncio.shield(self._first_files)
            except InfraError as error:
                _log.error("cannot write the job's history to %s yet: %s", self._store.path, error)
                await asyncio.sleep(pause)

    def _write_first_files(self) -> None:
        self._store.make()
        if self._is_superseded():
            _log.warning("a later AM attempt has already published its address; leaving am.json and job.json unchanged")
            return
        if self._listens:
            self._store.put_json("am.json", dict(self._listens))
        # What clients need, without the AM's own secrets.
        access = JobCredentials(am=self._credentials, executors=self._credentials)
        self._store.put_json(ACCESS_FILE, to_plain(access))
        self._write_job()

    def _write_job(self) -> None:
        record = replace(self._record, spec=redact(self._record.spec))
        self._store.put_json("job.json", to_plain(record))
        self._take_kill_request()

    def _is_superseded(self) -> bool:
        """Return True if a later AM attempt has started: the store was unreachable for us, or we were suspended."""
        stored = self._store.read("am.json", 0, _MAX_REQUEST_BYTES) if self._listens else None
        if not self._listens or stored is None:
            return False
        try:
            return bool(json.loads(stored)["attempt"] > self._listens["attempt"])
        except (ValueError, TypeError, KeyError):
            return False

    def _take_kill_request(self) -> None:
        """Take over a kill request that a client stored while there was no AM to send it to."""
        request = self._folder.kill_request
        stored = self._store.read(request.name, 0, _MAX_REQUEST_BYTES) if self._listens else None
        if stored is None:
            return
        draft = request.with_suffix(".new")
        draft.write_bytes(stored)
        draft.rename(request)

    async def finish(self, journal: ReplicatedJournal | None) -> None:
        """Write the remaining files, and the summary last: when it is there, everything else is."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        deadline = clock.monotonic() + _FINISH_SECONDS - _FINISH_RETRY_SECONDS
        try:
            async with asyncio.timeout(_FINISH_SECONDS):
                if journal:
                    try:
                        await journal.finish()
                    except (InfraError, OSError) as error:
                        self._log_error(error)
                if self._first_files:
                    await asyncio.wait([self._first_files])
                await to_thread(self._finish, deadline)
        except TimeoutError:
            _log.error("could not complete the job's history in %s within %g s", self._store.path, _FINISH_SECONDS)

    def _finish(self, deadline: float) -> None:
        """Write the last files. A failure of one step does not stop the others, above all the summary."""
        steps: tuple[Callable[[], object], ...] = (
            lambda: self._store.delete(ACCESS_FILE),
            self._finish_first_files,
            self._put_metrics,
            lambda: self._store.delete("am.json"),
            lambda: self._store.delete(self._folder.kill_request.name),
            self._store.remove_drafts,
            self._put_own_log,  # a client that finds it has everything but the summary, which it may have of its own
            self._put_summary,
        )
        for left, step in zip(range(len(steps) - 1, -1, -1), steps, strict=True):
            try:
                self._call_with_retry(step, deadline - left)  # leaves each later step at least a second
            except (InfraError, OSError) as error:
                self._log_error(error)
        with contextlib.suppress(InfraError, OSError):  # it cannot even be opened, as has been logged
            self._store.close()

    def _log_error(self, error: Exception) -> None:
        _log.error("cannot complete the job's history in %s: %s", self._store.path, error)

    def _finish_first_files(self) -> None:
        """Write job.json if the job ended before the first files were written."""
        if self._work is None or (self._first_files and self._first_files.done() and not self._first_files.exception()):
            return
        self._store.make()
        if not self._is_superseded():
            self._write_job()

    def _put_summary(self) -> None:
        """Write the summary, unless an earlier AM attempt has: that one knew more than one that found the job ended."""
        if self._work is None and self._store.find("summary.json"):
            return
        self._store.put("summary.json", self._folder.summary.read_bytes())

    def _put_metrics(self) -> None:
        if self._folder.metrics.exists():
            self._store.put(self._folder.metrics.name, self._folder.metrics)

    def _put_own_log(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._store.put("am.log", read_tail(self._own_log, _LOG_TAIL_BYTES))

    def _call_with_retry(self, step: Callable[[], object], deadline: float) -> None:
        """Call the step, and retry while there is time: the store may just be starting."""
        while True:
            try:
                step()
            except InfraError as error:
                if self._store.is_permanent(error) or clock.monotonic() + _FINISH_RETRY_SECONDS > deadline:
                    raise
                time.sleep(_FINISH_RETRY_SECONDS)
            else:
                return
