"""Copies the output of tasks on other machines into the job's local `logs/` while it is printed.

Every wanted stream is requested from the AM in pieces (see `protocol/output_messages.py`), and each is appended to a
local file of the same name (see `log_mirror`), which can be read like the log of a local job.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Self

from tony.errors import (
    ConnectionFailedError,
    InfraError,
    ProtocolError,
    RecordError,
    SchedulerError,
    StorageError,
    TonyError,
    join_lines,
)
from tony.history.job_record import record_of
from tony.jobs.am_client import connect_to_am
from tony.jobs.log_files import Selection, find_log_files
from tony.jobs.remote.log_mirror import Mirror, complete, note_complete
from tony.jobs.remote.scheduler_logs import (
    RemoteStream,
    SchedulerLogSink,
    fetch_ended,
    fetch_from_scheduler,
    select_streams,
)
from tony.jobs.remote.stream_end import StreamEndSearch
from tony.jobs.status import job_status
from tony.linux.inotify import ChangeWatch
from tony.model.job_report import JobReport
from tony.model.log_name import LogName
from tony.model.state_directory import Home, JobFolder
from tony.model.submission_record import JobRecord
from tony.protocol.error_codes import Code
from tony.protocol.output_messages import LOG_PIECE, LogPiece, ReadLog, unpack_times
from tony.rpc.connection import RpcConnection
from tony.schedulers.client_interface import Submitter
from tony.schedulers.registry import has_remote_logs, load_submitter

#: Bytes that all open requests together may return.
_CREDIT_BYTES = 8 << 20
#: Additional bytes for streams with much output.
_EXTRA_BYTES = 4 << 20
#: Minimum bytes of one answer, if many tasks share the credit.
_MIN_ANSWER_BYTES = 256
#: Requests sent before waiting for the connection to drain.
_REQUEST_BATCH = 200
#: Seconds between attempts to lock a stream that another process of this machine fetches.
_LOCK_POLL_SECONDS = 0.3
#: Seconds between attempts to connect to the AM, if no file change announces one earlier.
_RECONNECT_SECONDS = 1.0
#: At a job's end: for the AM's last pieces, and for other processes to write theirs.
_END_TIMEOUT_SECONDS = 10.0
_FOREIGN_END_TIMEOUT_SECONDS = 2.0


class LogFetcher:
    """Fetches some streams of one job, in the background. An async context manager.

    Args:
        submitter: provides output that the AM cannot get; None for none.
        wait: continue until the job has ended; otherwise until everything printed so far is local.
        notice: called with problems.
    """

    def __init__(
        self,
        folder: JobFolder,
        record: JobRecord,
        submitter: Submitter | None,
        selection: Selection,
        notice: Callable[[str], None],
        *,
        wait: bool,
    ) -> None:
        self._folder = folder
        self._submitter = submitter
        self._notice = notice
        self._wait = wait
        self._mirror = Mirror(folder.logs)
        self._streams = {stream.number: stream for stream in select_streams(folder.logs, record, selection)}
        self._extra = _EXTRA_BYTES
        self._left = len(self._streams)
        self._has_refused = False
        self._connection_error = ""
        self._ending = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self._fetching: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._work = asyncio.get_running_loop().create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop fetching and release all locks."""
        tasks = [task for task in (self._work, self._fetching) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._mirror.close()

    @property
    def is_running(self) -> bool:
        """Return True if it is fetching; it stops when it has everything, or after an error."""
        return self._work is not None and not self._work.done()

    async def wait_until_finished(self) -> None:
        """Wait for the rest of the output, when the job has ended or all current output was requested."""
        self._ending.set()
        is_late = False
        if self._work:
            # Even if it never connected: it tries once more.
            _, late = await asyncio.wait([self._work], timeout=_END_TIMEOUT_SECONDS)
            is_late = bool(late)
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        if self._fetching:
            await asyncio.gather(self._fetching, return_exceptions=True)
        if is_late and any(stream.search and stream.search.is_found for stream in self._open_streams()):
            self._notice("another command is still fetching output: this is what it has so far")
        else:
            await self._wait_for_other_processes()
        note_complete(self._folder.logs, [s.label for s in self._streams.values() if self._wait and _is_whole(s)])
        # If something was missed, current output was requested already; at the job's end there may be more.
        asked = self._fetching is not None and not self._wait and not self._has_refused
        if self._submitter and not asked and not all(map(_is_whole, self._streams.values())):
            await self._fetch_missing()
        # While a job is followed, its follower reports that.
        has_am = self._folder.am.exists() and not self._folder.summary.exists()
        if self._connection_error and not self._wait and has_am:
            self._notice(f"the latest output may be missing: {self._connection_error}")

    # --- the application master -----------------------------------------------------------------------------------

    async def _run(self) -> None:
        while self._open_streams():
            try:
                async with connect_to_am(self._folder) as connection:
                    await self._fetch_from_am(connection)
            except (ConnectionFailedError, SchedulerError) as error:
                self._connection_error = str(error)
            except (ProtocolError, RecordError) as error:
                if not isinstance(error, ProtocolError) or error.code != Code.BUSY:
                    self._notice(f"cannot fetch output from the application master: {_explain(error)}")
                    return
            except (OSError, InfraError) as error:
                self._notice(f"cannot write output to {self._folder.logs}: {error}")
                return
            if self._ending.is_set() or not self._wait:
                return
            await self._pause()

    async def _pause(self) -> None:
        """Wait until there may be an AM to connect to."""
        with ChangeWatch() as changes:  # only now: a user may have few
            changes.add(self._folder.path)
            waits = [asyncio.ensure_future(changes.wait_change()), asyncio.ensure_future(self._ending.wait())]
            try:
                await asyncio.wait(waits, timeout=_RECONNECT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
                await asyncio.gather(*waits, return_exceptions=True)

    async def _fetch_from_am(self, connection: RpcConnection) -> None:
        self._extra = _EXTRA_BYTES
        for stream in self._streams.values():
            stream.most = 0
        self._left = len(self._open_streams())
        self._lock_streams()
        asking = asyncio.get_running_loop().create_task(self._request_all(connection))
        asking.add_done_callback(lambda task: connection.abort() if not task.cancelled() and task.exception() else None)
        try:
            while self._left and (message := await connection.receive()) is not None:
                if isinstance(message, LogPiece):
                    self._handle_piece(connection, message)
                await asyncio.sleep(0)  # let the printer of the lines run
            if asking.done():
                asking.result()
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    async def _request_all(self, connection: RpcConnection) -> None:
        """Request every stream; those locked by another process as soon as it releases them.

        Without `wait`, of these only the end is requested, and what the other process copies is waited for.
        """
        while waiting := [stream for stream in self._open_streams() if not (stream.is_writer and stream.most)]:
            for number, stream in enumerate(waiting):
                if not stream.most and (stream.is_writer or (stream.search and not stream.search.is_found)):
                    self._request(connection, stream)
                if number % _REQUEST_BATCH == 0:
                    await connection.drain()
            await asyncio.sleep(_LOCK_POLL_SECONDS)
            self._lock_streams()
        if not self._left:
            connection.abort()  # no further message is waited for

    def _lock_streams(self) -> None:
        """Lock open streams that no other process fetches. They continue at the end of their newest local file.

        Without `wait`, those of other processes are done once these have copied what was printed so far.
        """
        waiting = [stream for stream in self._open_streams() if not (stream.is_writer or stream.most)]
        for stream in waiting:
            stream.is_writer = self._try_lock(stream)
        resumed = [stream for stream in waiting if stream.is_writer or not self._wait]
        self._note_local_ends(resumed)
        for stream in resumed:
            if stream.is_writer:
                stream.search = None
            elif stream.search is None:
                stream.search = StreamEndSearch(LogName.parse(stream.name), stream.offset)
            elif _is_copied(stream.search, stream):
                self._on_done(stream)

    def _note_local_ends(self, streams: Sequence[RemoteStream]) -> None:
        """Note where the newest local file of each stream ends."""
        by_name = {(stream.task.role, stream.task.index, stream.stream): stream for stream in streams}
        for name in find_log_files(self._folder.logs, Selection()) if streams else ():
            if found := by_name.get((name.role, name.index, name.stream)):
                self._mirror.forget(name)
                found.name, found.offset = name.file, self._mirror.end(name)

    def _try_lock(self, stream: RemoteStream) -> bool:
        try:
            return self._mirror.take(stream.number)
        except OSError:  # a file system without locks: two concurrent followers may write lines twice
            return True

    def _request(self, connection: RpcConnection, stream: RemoteStream) -> None:
        if stream.search:
            stream.most = 1
            connection.send(stream.search.build_request(stream.number, stream.task, stream.stream))
            return
        stream.most = self._answer_bytes()
        if stream.full and self._extra >= LOG_PIECE > stream.most:
            stream.most = LOG_PIECE
            self._extra -= LOG_PIECE
        connection.send(
            ReadLog(
                reader=stream.number,
                task=stream.task,
                stream=stream.stream,
                name=stream.name,
                offset=stream.offset,
                wait=self._wait,
                most=stream.most,
            )
        )

    def _answer_bytes(self) -> int:
        return max(_MIN_ANSWER_BYTES, min(LOG_PIECE, _CREDIT_BYTES // len(self._streams)))

    def _handle_piece(self, connection: RpcConnection, piece: LogPiece) -> None:
        stream = self._streams.get(piece.reader)
        if stream is None or not stream.most:
            return
        if stream.most > self._answer_bytes():
            self._extra += stream.most
        if stream.search:
            self._continue_search(connection, stream, stream.search, piece)
            return
        if piece.data:
            self._write_piece(stream, piece)
        if piece.missed:
            stream.missed = True
            self._fetch_soon()
        if piece.over or not (piece.data or piece.missed or self._wait):
            self._on_done(stream)
        else:
            self._request(connection, stream)

    def _continue_search(
        self, connection: RpcConnection, stream: RemoteStream, search: StreamEndSearch, piece: LogPiece
    ) -> None:
        """Continue the search for the end of what another process copies, until that is found, or the AM exits."""
        if piece.over:
            return
        if piece.data:
            name, data = _decode_piece(stream, piece)
            search.take(name, piece.offset + len(data))
        elif not piece.missed:  # which is said once, instead of an answer
            search.take(None, 0)
        stream.most = 0
        if not search.is_found:
            self._request(connection, stream)
        elif _is_copied(search, stream):
            self._on_done(stream)

    def _write_piece(self, stream: RemoteStream, piece: LogPiece) -> None:
        name, data = _decode_piece(stream, piece)
        self._mirror.write(name, piece.start, piece.offset, data, unpack_times(piece.times))
        stream.name, stream.offset = piece.name, piece.offset + len(data)
        stream.full = len(data) >= stream.most

    def _on_done(self, stream: RemoteStream) -> None:
        if not stream.done:
            self._left -= 1
        stream.done, stream.most = True, 0
        self._unlock(stream)

    def _unlock(self, stream: RemoteStream) -> None:
        if stream.is_writer:
            stream.is_writer = False
            try:
                self._mirror.leave(stream.number)
            except OSError:
                pass  # file system without locks

    def _open_streams(self) -> list[RemoteStream]:
        return [stream for stream in self._streams.values() if not stream.done]

    async def _wait_for_other_processes(self) -> None:
        """Wait briefly for other processes that fetch streams."""
        try:
            async with asyncio.timeout(_FOREIGN_END_TIMEOUT_SECONDS):
                for stream in self._open_streams():
                    while not stream.is_writer and not self._try_lock(stream):
                        await asyncio.sleep(_LOCK_POLL_SECONDS / 10)
                    stream.is_writer = True
                    self._unlock(stream)
        except TimeoutError:
            pass
        have = complete(self._folder.logs)
        self._note_local_ends(self._open_streams())
        for stream in self._open_streams():
            if stream.label in have or (stream.search and _is_copied(stream.search, stream)):
                self._on_done(stream)

    # --- the scheduler --------------------------------------------------------------------------------------------

    def _fetch_soon(self) -> None:
        if self._fetching is None or self._fetching.done():
            self._fetching = asyncio.get_running_loop().create_task(self._fetch_missing())

    async def _fetch_missing(self) -> None:
        """Fetch output of exited executors. Rotated files are skipped: their local copies cannot be continued.

        The end of a file is taken only if the AM will no longer send its beginning.
        """
        await asyncio.sleep(0)
        incomplete = [stream for stream in self._streams.values() if not _is_whole(stream)]
        taken = [stream for stream in incomplete if not stream.is_writer and self._try_lock(stream)]
        streams = [stream for stream in incomplete if stream.is_writer or stream in taken]
        if not streams:
            return
        sink = SchedulerLogSink(self._mirror, streams, replaces=False, skips=not self.is_running)
        try:
            await fetch_from_scheduler(self._submitter, self._folder, sink, self._notice)
        finally:
            self._has_refused = sink.has_refused
            for stream in taken:
                if not stream.is_writer:  # it may have become one meanwhile
                    stream.is_writer = True
                    self._unlock(stream)


def find_remote_submitter(home: Home, record: JobRecord) -> Submitter | None:
    """Return the submitter that knows where a job's output is; None if it is local, or if none knows."""
    if not has_remote_logs(record.spec.scheduler):
        return None
    try:
        submitter = load_submitter(home, record)
    except InfraError:
        return None
    return None if submitter.capabilities.same_folder else submitter


@asynccontextmanager
async def fetch_logs(
    home: Home, record: JobRecord, selection: Selection, notice: Callable[[str], None], *, wait: bool = True
) -> AsyncIterator[LogFetcher | None]:
    """Fetch a job's output inside the context; yields None if it is local or already complete.

    Args:
        wait: until the job has ended; otherwise what was printed so far.

    Raises:
        StorageError: the job directory cannot be written.
    """
    submitter = find_remote_submitter(home, record)
    folder = home.job(record.job_id)
    if submitter is None:
        yield None
    elif folder.summary.exists():
        await fetch_ended(folder, record, submitter, selection, notice)
        yield None
    else:
        async with LogFetcher(folder, record, submitter, selection, notice, wait=wait) as logs:
            yield logs


async def fetch_current_output(
    home: Home, record: JobRecord, selection: Selection, notice: Callable[[str], None]
) -> None:
    """Fetch the output printed so far; do nothing if it is local.

    Raises:
        StorageError: the job directory cannot be written.
    """
    if find_remote_submitter(home, record) is None:
        return
    if not home.job(record.job_id).summary.exists():
        try:
            await job_status.load_report(home, record.job_id)  # it also locates the AM
        except TonyError as error:
            notice(f"the latest output may be missing: {join_lines(error)}")
            return
    async with fetch_logs(home, record, selection, notice, wait=False) as logs:
        if logs is not None:
            await logs.wait_until_finished()


async def fetch_failed_output(home: Home, report: JobReport) -> None:
    """Fetch the output of the task that failed, whose log the report names, if that takes no longer than the report."""
    failed = report.failure and report.failure.task
    record = record_of(home, report.job)
    submitter = find_remote_submitter(home, record) if failed else None
    if submitter and submitter.capabilities.keeps_output:
        selection = Selection(tasks=frozenset({str(failed)}))
        with suppress(StorageError):
            await fetch_ended(home.job(report.job), record, submitter, selection, lambda text: None)


def _decode_piece(stream: RemoteStream, piece: LogPiece) -> tuple[LogName, bytes]:
    """Return the log that a piece is of, and its bytes."""
    name = LogName.parse(piece.name)
    if name is None or name.file != piece.name or not stream.matches(name):
        raise ProtocolError(Code.BAD_MESSAGE, f"{piece.name[:100]!a} is not a log file of {stream.label}")
    try:
        data = base64.b64decode(piece.data, validate=True)
    except binascii.Error:
        raise ProtocolError(Code.BAD_MESSAGE, f"a piece of {stream.label} that is not base64") from None
    if not 0 <= piece.start <= piece.offset:
        raise ProtocolError(Code.BAD_MESSAGE, f"a piece of {stream.label} that begins before its file")
    return name, data


def _is_copied(search: StreamEndSearch, stream: RemoteStream) -> bool:
    """Return True if the local copy has everything up to the end that a search has found."""
    return search.is_reached(LogName.parse(stream.name), stream.offset)


def _is_whole(stream: RemoteStream) -> bool:
    return stream.done and not stream.missed


def _explain(error: TonyError) -> str:
    if isinstance(error, ProtocolError) and error.code == Code.UNKNOWN_KIND:
        return "its version is older than this tony; run `tony logs` again when the job has ended"
    return str(error)
