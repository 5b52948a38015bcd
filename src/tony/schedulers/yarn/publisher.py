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
from pathlib import Path

from tony.config.secrets import redact
from tony.dataclass import replace
from tony.errors import TonyError
from tony.hadoop.hdfs.append_log import AppendLog, AppendOptions
from tony.hadoop.hdfs.webhdfs import WebHdfs
from tony.hadoop.ipc.errors import HadoopError
from tony.linux.threads import beside
from tony.model.codec import to_plain
from tony.model.layout import JobFolder
from tony.protocol.launch import JobCredentials
from tony.schedulers.yarn.papers import JobPapers

#: Seconds between two looks at the event log in the container.
_LOOK = 0.25
#: Seconds that the end of the log may take to get through.
_LAST = 15.0
#: Bytes of the master's own log that are kept.
_LOG_TAIL = 1 << 20
_log = logging.getLogger(__name__)


class Publisher:
    """One job's record.

    Args:
        own_log: what the application master says.
    """

    def __init__(self, files: WebHdfs, papers: JobPapers, folder: JobFolder, own_log: Path) -> None:
        self._files = files
        self._papers = papers
        self._folder = folder
        self._own_log = own_log
        self._segment = folder.events(1)
        self._offset = 0
        self._log: AppendLog | None = None
        self._work: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins, in the background."""
        self._work = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            await beside(self._begin)
            while True:
                self._copy()
                await asyncio.sleep(_LOOK)
        except HadoopError as error:
            _log.error("the job's record cannot be written to %s: %s", self._papers.folder, error)

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
        data = json.dumps(content, separators=(",", ":")).encode()
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
        if self._work is None:
            return
        self._work.cancel()
        await asyncio.gather(self._work, return_exceptions=True)
        try:
            async with asyncio.timeout(_LAST):
                await beside(self._finish)
        except (TonyError, TimeoutError) as error:
            _log.error("the end of the job's record cannot be written to %s: %s", self._papers.folder, error)

    def _finish(self) -> None:
        target = self._papers.folder
        if self._log is None:  # it ended before this had begun
            self._begin()
        assert self._log is not None
        self._copy()
        self._log.flush(_LAST)
        self._log.close()
        with contextlib.suppress(FileNotFoundError):
            with self._own_log.open("rb") as file:
                size = file.seek(0, 2)
                file.seek(max(0, size - _LOG_TAIL))
                self._files.create(f"{target}/am.log", file.read(), permission=0o600, overwrite=True)
        self._files.delete(f"{target}/access.json")
        self._files.create(
            f"{target}/summary.json", self._folder.summary.read_bytes(), permission=0o600, overwrite=True
        )
        self._files.close()
