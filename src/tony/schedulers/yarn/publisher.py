"""Writes a job's record into the cluster's file system while the job runs, so that it outlives the container.

    <staging>/jobs/<application id>/      its owner's alone
      job.json          who, when, and the resolved job file, secrets out
      access.json       how clients prove themselves to the application master; removed when the job has ended
      events.<n>.jsonl  the event log, a moment behind the one in the container
      am.log            what the application master said, when it ended
      summary.json      the last report; there once the job has ended

All of it is written in threads: the master never waits for HDFS, but for a moment at its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tony.config.secrets import redact
from tony.dataclass import replace
from tony.errors import InfraError
from tony.hadoop.hdfs.append_log import AppendLog, AppendOptions, LogFullError
from tony.linux.threads import beside
from tony.model.codec import to_plain
from tony.model.layout import JobFolder
from tony.protocol.launch import JobCredentials
from tony.schedulers.yarn.papers import JobPapers

if TYPE_CHECKING:
    from tony.hadoop.hdfs.webhdfs import WebHdfs

#: Seconds between two looks at the event log in the container.
_LOOK = 0.25
#: Seconds that the end of the record may take to get through, and of these the end of the event log.
_LAST, _LAST_EVENTS = 15.0, 8.0
#: Seconds between two tries to begin, at most: a NameNode may be starting.
_AGAIN = 5.0
#: Bytes of the master's own log that are kept.
_LOG_TAIL = 1 << 20
_log = logging.getLogger(__name__)


class Publisher:
    """One job's record.

    Args:
        files: opens the file system; called in a thread, for it has much to load.
        own_log: what the application master says.
    """

    def __init__(self, files: Callable[[], WebHdfs], papers: JobPapers, folder: JobFolder, own_log: Path) -> None:
        self._open = files
        self._papers = papers
        self._folder = folder
        self._own_log = own_log
        self._segment = folder.events(1)
        self._offset = 0
        self._log: AppendLog | None = None
        self._work: asyncio.Task[None] | None = None
        self._beginning: asyncio.Task[None] | None = None

    @cached_property
    def _files(self) -> WebHdfs:
        return self._open()

    def start(self) -> None:
        """Begins, in the background. Without it `finish` writes the end alone."""
        self._work = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        pause = _LOOK
        while self._log is None:
            # A thread cannot be stopped: `finish` waits for it, for two that begin would be in each other's way.
            self._beginning = asyncio.get_running_loop().create_task(beside(self._begin))
            try:
                await asyncio.shield(self._beginning)
            except InfraError as error:
                _log.error("the job's record cannot be written to %s yet: %s", self._papers.folder, error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _AGAIN)
        try:
            while True:
                with contextlib.suppress(LogFullError):  # the next look takes it along
                    self._copy()
                await asyncio.sleep(_LOOK)
        except InfraError as error:
            _log.error("the job's events cannot be written to %s any more: %s", self._papers.folder, error)

    def _begin(self) -> None:
        target = self._papers.folder
        self._files.make_directories(target, 0o700)
        record = replace(self._papers.record, spec=redact(self._papers.record.spec))
        self._put("job.json", to_plain(record))
        # What clients need, and nothing of the master's own.
        access = JobCredentials(am=self._papers.credentials.executors, executors=self._papers.credentials.executors)
        self._put("access.json", to_plain(access))
        self._log = AppendLog(
            self._files, f"{target}/{self._segment.name}", AppendOptions(interval=_LOOK, permission=0o600)
        )

    def _put(self, name: str, content: object) -> None:
        self._send(name, json.dumps(content, separators=(",", ":")).encode())

    def _send(self, name: str, data: bytes) -> None:
        self._files.create(f"{self._papers.folder}/{name}", data, permission=0o600, overwrite=True)

    def _copy(self) -> None:
        """Hands over what the event log has more than at the last look: whole lines."""
        with contextlib.suppress(FileNotFoundError), self._segment.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
            whole = data.rfind(b"\n") + 1
            if whole and self._log:
                self._log.write(data[:whole])
                self._offset += whole

    async def finish(self) -> None:
        """Writes the rest, and the summary last: who sees that finds everything else."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        try:
            async with asyncio.timeout(_LAST):
                if self._beginning:
                    await asyncio.wait([self._beginning])
                await beside(self._finish)
        except TimeoutError:
            _log.error("the end of the job's record is not in %s after %g s", self._papers.folder, _LAST)

    def _finish(self) -> None:
        """That one thing cannot be written hinders nothing else: the summary above all."""
        steps: tuple[Callable[[], object], ...] = (
            self._finish_events,
            self._put_own_log,
            lambda: self._files.delete(f"{self._papers.folder}/access.json"),
            lambda: self._send("summary.json", self._folder.summary.read_bytes()),
        )
        for step in steps:
            try:
                step()
            except (InfraError, OSError) as error:
                _log.error("the end of the job's record cannot be written to %s: %s", self._papers.folder, error)
        with contextlib.suppress(InfraError):  # it cannot even be opened, as was said
            self._files.close()

    def _finish_events(self) -> None:
        if self._work is None:
            return
        if self._log is None:  # it ended before this had begun
            self._begin()
        assert self._log is not None
        self._copy()
        self._log.flush(_LAST_EVENTS)
        self._log.close(0.0 if self._log.waiting else None)

    def _put_own_log(self) -> None:
        with contextlib.suppress(FileNotFoundError), self._own_log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _LOG_TAIL))
            self._send("am.log", file.read())
