"""Writes a job's record into the cluster's file system while the job runs, so that it outlives the container.

    <staging>/jobs/<application id>/      its owner's alone
      job.json          who, when, and the resolved job file, secrets out
      access.json       how clients prove themselves to the application master; removed when the job has ended
      am.json           where it listens, for when no ResourceManager tells; goes with it
      events.<n>.jsonl  the event log, a moment behind the one in the container
      am.log            what the application master said, when it ended
      summary.json      the last report; there once the job has ended

All of it is written in threads: the master never waits for HDFS, but for a moment at its end. Trouble of HDFS is no
trouble of the job's: what cannot be written now waits in the container's own files, and is written when it can be.
Nothing appears under its name before it is whole.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tony import clock
from tony.config.secrets import redact
from tony.dataclass import replace
from tony.errors import InfraError, StorageError
from tony.hadoop.hdfs.append_log import AppendLog, AppendOptions
from tony.hadoop.ipc.errors import (
    AccessControlError,
    AuthorizationError,
    HadoopError,
    InvalidTokenError,
    LoginError,
    QuotaExceededError,
)
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
_LAST, _LAST_EVENTS, _SOON = 30.0, 15.0, 1.0
#: Seconds between two tries to begin, at most: a NameNode may be starting. And between two of the end's.
_AGAIN, _SOON_AGAIN = 5.0, 0.5
#: Bytes of the event log that are taken to memory at once, and that wait there.
_PIECE, _WAITING = 1 << 20, 4 << 20
#: Trouble that will hardly be over soon. All other may: a NameNode that has just started knows no DataNode at first,
#: and somebody's hold of a file lasts until the DataNodes have agreed on where it ends.
_LASTING = (QuotaExceededError, AccessControlError, AuthorizationError, InvalidTokenError, LoginError)
#: Bytes of the master's own log that are kept.
_LOG_TAIL = 1 << 20
_log = logging.getLogger(__name__)


class Publisher:
    """One job's record.

    Args:
        files: opens the file system; called in a thread, for it has much to load.
        own_log: what the application master says.
        recover: takes a file from a writer that died; blocks, and may fail.
        listens: what clients have in `am.json`; None if the master does not listen.
    """

    def __init__(
        self,
        files: Callable[[], WebHdfs],
        papers: JobPapers,
        folder: JobFolder,
        own_log: Path,
        recover: Callable[[str], object] | None = None,
        listens: Mapping[str, object] | None = None,
    ) -> None:
        self._open = files
        self._papers = papers
        self._folder = folder
        self._own_log = own_log
        self._recover = recover
        self._listens = listens
        self._segment = folder.events(1)
        self._offset = 0
        self._log: AppendLog | None = None
        self._troubled = False
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
                while self._copy():
                    pass
                self._tell_trouble()
                await asyncio.sleep(_LOOK)
        except InfraError as error:
            _log.error("the job's events cannot be written to %s any more: %s", self._papers.folder, error)

    def _tell_trouble(self) -> None:
        """Says it when HDFS begins to take no events, and when it takes them again."""
        trouble = self._log and self._log.trouble
        if trouble and not self._troubled:
            _log.warning("the job's events wait: %s takes none now: %s", self._papers.folder, trouble)
        elif self._troubled and not trouble:
            _log.info("the job's events are written to %s again", self._papers.folder)
        self._troubled = bool(trouble)

    def _begin(self) -> None:
        target = self._papers.folder
        self._files.make_directories(target, 0o700)
        record = replace(self._papers.record, spec=redact(self._papers.record.spec))
        self._put("job.json", to_plain(record))
        # What clients need, and nothing of the master's own.
        access = JobCredentials(am=self._papers.credentials.executors, executors=self._papers.credentials.executors)
        self._put("access.json", to_plain(access))
        if self._listens:
            self._put("am.json", dict(self._listens))
        options = AppendOptions(interval=_LOOK, permission=0o600, patience=math.inf, most_waiting=_WAITING)
        self._log = AppendLog(self._files, f"{target}/{self._segment.name}", options, recover=self._recover)

    def _put(self, name: str, content: object) -> None:
        self._send(name, json.dumps(content, separators=(",", ":")).encode())

    def _send(self, name: str, data: bytes) -> None:
        """Beside, and renamed: HDFS shows a file that is being written, and leaves it empty where it has no room."""
        path, draft = f"{self._papers.folder}/{name}", f"{self._papers.folder}/.{name}.new"
        try:
            self._files.create(draft, data, permission=0o600, overwrite=True)
            self._files.rename(draft, path, overwrite=True)
        except InfraError:
            with contextlib.suppress(InfraError):
                self._files.delete(draft)
            raise

    def _copy(self) -> bool:
        """Hands over what the event log has more than at the last look, a piece of whole lines; whether more follows.

        What the log does not take now stays in the container's file until it does.
        """
        if self._log is None or self._log.waiting >= _WAITING - _PIECE:
            return False
        with contextlib.suppress(FileNotFoundError), self._segment.open("rb") as file:
            file.seek(self._offset)
            data = file.read(_PIECE)
            while (whole := data.rfind(b"\n") + 1) == 0 and (more := file.read(_PIECE)):  # a line of its own kind
                data += more
            if whole:
                self._log.write(data[:whole])
                self._offset += whole
                return len(data) >= _PIECE
        return False

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
        give_up = clock.monotonic() + _LAST - _SOON_AGAIN
        steps: tuple[Callable[[], object], ...] = (
            self._finish_events,
            self._put_own_log,
            lambda: self._files.delete(f"{self._papers.folder}/access.json"),
            lambda: self._files.delete(f"{self._papers.folder}/am.json"),
            self._put_summary,
        )
        for left, step in zip(range(len(steps) - 1, -1, -1), steps, strict=True):
            try:
                _patiently(step, give_up - left)  # each of the later ones has a moment at least
            except (InfraError, OSError) as error:
                _log.error("the end of the job's record cannot be written to %s: %s", self._papers.folder, error)
        with contextlib.suppress(InfraError, OSError):  # it cannot even be opened, as was said
            self._files.close()

    def _finish_events(self) -> None:
        if self._work is None:
            return
        if self._log is None:  # it ended before this had begun
            self._begin()
        assert self._log is not None
        trouble = self._log.trouble
        give_up = clock.monotonic() + (_SOON if isinstance(trouble, _LASTING) else _LAST_EVENTS)
        while self._log.flush(max(0.0, give_up - clock.monotonic())):
            before = self._offset
            self._copy()
            if self._offset == before:
                self._log.close()
                return
        trouble = self._log.trouble
        self._log.close(0.0)
        raise StorageError(f"the last events are missing there: {trouble or 'it is slow'}")

    def _put_summary(self) -> None:
        """An earlier attempt that has told the end knew more of it than one that found it gone."""
        if self._work is None and self._files.find(f"{self._papers.folder}/summary.json"):
            return
        self._send("summary.json", self._folder.summary.read_bytes())

    def _put_own_log(self) -> None:
        with contextlib.suppress(FileNotFoundError), self._own_log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _LOG_TAIL))
            self._send("am.log", file.read())


def _patiently(step: Callable[[], object], give_up: float) -> None:
    """Does it, again and again while there is time: a NameNode may just be starting."""
    while True:
        try:
            step()
        except HadoopError as error:
            if isinstance(error, _LASTING) or clock.monotonic() + _SOON_AGAIN > give_up:
                raise
            time.sleep(_SOON_AGAIN)
        else:
            return
