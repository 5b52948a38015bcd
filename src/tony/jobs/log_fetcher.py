"""The output of tasks that run on other machines, brought into the job's `logs/` here while it is printed.

The application master is asked for every wanted stream, one piece after the other (see `protocol/messages.py`), and
each piece is added to a file of the same name here (see `log_mirror`). Whoever reads the files finds nothing special.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from tony.core.events import ContainerEnded, Granted
from tony.dataclass import dataclass
from tony.errors import ConnectionFailed, InfraError, ProtocolError, RecordError, TonyError
from tony.history import event_log
from tony.jobs import facts
from tony.jobs.am_client import connect_to_am
from tony.jobs.inotify import FolderWatch
from tony.jobs.log_mirror import Mirror, complete, note_complete
from tony.jobs.log_names import LogName, Selection, find
from tony.linux.threads import to_thread
from tony.model.ids import TaskId
from tony.model.job_record import JobRecord
from tony.model.layout import Home, JobFolder
from tony.protocol.error_codes import Code
from tony.protocol.messages import LOG_PIECE, LogPiece, ReadLog
from tony.rpc.connection import RpcConnection
from tony.schedulers.interface import LogSink, Submitter
from tony.schedulers.registry import is_elsewhere

#: Bytes that all open requests together may bring, and more for those whose programs print much.
_CREDIT, _EXTRA = 8 << 20, 4 << 20
#: Bytes of one answer, at least: many tasks share the credit.
_LEAST = 256
#: Requests that are sent before the connection is given time to take them.
_AT_ONCE = 200
#: Seconds between two tries to become the writer of a stream that another process of this machine brings.
_LOCK_PAUSE = 0.3
#: Seconds between two looks for an application master, if nothing tells us of one before.
_PAUSE = 1.0
#: Seconds at a job's end for the application master's last pieces, and for another process to write its last ones.
_LAST, _LAST_OF_OTHERS = 10.0, 2.0
#: Bytes of one program's output that are brought of a job that is not our own.
_MOST_OF_OTHERS = 2 << 30
#: Seconds that the cluster has at a job's end to show what nobody could tell us.
_FETCH = 30.0


@dataclass(slots=True, eq=False)
class _Stream:
    """One task's `out` or `err`.

    Attributes:
        number: among all streams of the job.
        ours: we are the one who writes its files here.
        most: bytes that the open request may bring; 0 if none is open.
        done: nothing more will come.
        missed: something was printed that the application master could not get at.
    """

    number: int
    task: TaskId
    stream: str
    name: str = ""
    offset: int = 0
    ours: bool = False
    most: int = 0
    full: bool = False
    done: bool = False
    missed: bool = False

    @property
    def label(self) -> str:
        """As people and `.complete` write it."""
        return f"{self.task} {self.stream}"

    def takes(self, name: LogName) -> bool:
        return (name.role, name.index, name.stream) == (self.task.role, self.task.index, self.stream)


class LogFetcher:
    """Brings some streams of one job. Inside `bringing` it is at work.

    Args:
        submitter: who is asked for what the application master cannot get at; None: nobody.
        wait: go on until the job has ended; otherwise until everything is here that was printed so far.
        notice: is told what goes wrong.
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
        self._streams = {stream.number: stream for stream in _streams(folder.logs, record, selection)}
        self._extra = _EXTRA
        self._left = len(self._streams)
        self._ending = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self._fetching: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins, in the background."""
        self._work = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stops."""
        tasks = [task for task in (self._work, self._fetching) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._mirror.close()

    async def finished(self, *, look: bool = True) -> None:
        """The job has ended, or all is to be brought that there is now: returns when that is here.

        Args:
            look: ask the scheduler for what the application master did not tell.
        """
        self._ending.set()
        if self._work:
            # Also where it never reached anybody: it looks once more.
            await asyncio.wait([self._work], timeout=_LAST)
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        await self._others()
        if self._fetching:
            await asyncio.gather(self._fetching, return_exceptions=True)
        note_complete(self._folder.logs, [s.label for s in self._streams.values() if self._wait and _is_whole(s)])
        # What is there now was asked for already, where something was missed; at the job's end there may be more.
        asked = self._fetching is not None and not self._wait
        if look and not asked and any(not _is_whole(stream) for stream in self._streams.values()):
            await self._fetch()

    # --- the application master -----------------------------------------------------------------------------------

    async def _run(self) -> None:
        with FolderWatch() as changes:
            changes.add(self._folder.path)
            while self._open_streams():
                try:
                    async with connect_to_am(self._folder) as connection:
                        await self._converse(connection)
                except ConnectionFailed:
                    pass  # whoever follows the job tells of that
                except (ProtocolError, RecordError) as error:
                    if not isinstance(error, ProtocolError) or error.code != Code.BUSY:
                        self._notice(f"output cannot be had from the application master: {_why(error)}")
                        return
                except (OSError, InfraError) as error:
                    self._notice(f"output cannot be kept in {self._folder.logs}: {error}")
                    return
                if self._ending.is_set() or not self._wait:
                    return
                await self._pause(changes)

    async def _pause(self, changes: FolderWatch) -> None:
        """Until there may be an application master."""
        waits = [asyncio.ensure_future(changes.wait_change()), asyncio.ensure_future(self._ending.wait())]
        try:
            await asyncio.wait(waits, timeout=_PAUSE, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _converse(self, connection: RpcConnection) -> None:
        self._extra = _EXTRA
        for stream in self._streams.values():
            stream.most = 0
        asking = asyncio.get_running_loop().create_task(self._ask_all(connection))
        asking.add_done_callback(lambda task: connection.abort() if not task.cancelled() and task.exception() else None)
        self._left = sum(not stream.done for stream in self._streams.values())
        try:
            while self._left and (message := await connection.receive()) is not None:
                if isinstance(message, LogPiece):
                    self._take(connection, message)
                await asyncio.sleep(0)  # who prints the lines gets its turn
            if asking.done():
                asking.result()
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    async def _ask_all(self, connection: RpcConnection) -> None:
        """Asks for every stream; for those that another process brings, as soon as it does so no more."""
        while waiting := [stream for stream in self._open_streams() if not stream.most]:
            self._take_over(stream for stream in waiting if not stream.ours)
            for number, stream in enumerate(stream for stream in waiting if stream.ours):
                self._ask(connection, stream)
                if number % _AT_ONCE == 0:
                    await connection.drain()
            if not self._wait:  # what another process brings is as good as here
                for stream in waiting:
                    if not stream.ours:
                        self._done(stream)
            await asyncio.sleep(_LOCK_PAUSE)

    def _take_over(self, streams: Iterable[_Stream]) -> None:
        """Makes us the writer of those that have none, and goes on where the newest file ends that is here."""
        taken = {(it.task.role, it.task.index, it.stream): it for it in streams if self._locked(it)}
        for stream in taken.values():
            stream.ours = True
        for name in find(self._folder.logs, Selection()) if taken else ():
            found = taken.get((name.role, name.index, name.stream))
            if found:
                self._mirror.forget(name)
                found.name, found.offset = name.file, self._mirror.end(name)

    def _locked(self, stream: _Stream) -> bool:
        try:
            return self._mirror.take(stream.number)
        except OSError:  # a file system without locks: two who follow at once may write lines twice
            return True

    def _ask(self, connection: RpcConnection, stream: _Stream) -> None:
        stream.most = self._share()
        if stream.full and self._extra >= LOG_PIECE > stream.most:
            stream.most = LOG_PIECE
            self._extra -= LOG_PIECE
        connection.send(
            ReadLog(
                reader=stream.number,
                task=str(stream.task),
                stream=stream.stream,
                name=stream.name,
                offset=stream.offset,
                wait=self._wait,
                most=stream.most,
            )
        )

    def _share(self) -> int:
        return max(_LEAST, min(LOG_PIECE, _CREDIT // len(self._streams)))

    def _take(self, connection: RpcConnection, piece: LogPiece) -> None:
        stream = self._streams.get(piece.reader)
        if stream is None or not stream.most:
            return
        if stream.most > self._share():
            self._extra += stream.most
        if piece.data:
            self._keep(stream, piece)
        if piece.missed:
            stream.missed = True
            self._fetch_soon()
        if piece.over or not (piece.data or piece.missed or self._wait):
            self._done(stream)
        else:
            self._ask(connection, stream)

    def _keep(self, stream: _Stream, piece: LogPiece) -> None:
        name = LogName.parse(piece.name)
        if name is None or name.file != piece.name or not stream.takes(name):
            raise ProtocolError(Code.BAD_MESSAGE, f"{piece.name[:100]!a} is no file of {stream.label}")
        try:
            data = base64.b64decode(piece.data, validate=True)
        except binascii.Error:
            raise ProtocolError(Code.BAD_MESSAGE, f"a piece of {stream.label} that is not base64") from None
        if not 0 <= piece.start <= piece.offset:
            raise ProtocolError(Code.BAD_MESSAGE, f"a piece of {stream.label} that begins before its file")
        self._mirror.write(name, piece.start, piece.offset, data)
        stream.name, stream.offset = piece.name, piece.offset + len(data)
        stream.full = len(data) >= stream.most

    def _done(self, stream: _Stream) -> None:
        if not stream.done:
            self._left -= 1
        stream.done, stream.most = True, 0
        self._leave(stream)

    def _leave(self, stream: _Stream) -> None:
        if stream.ours:
            stream.ours = False
            try:
                self._mirror.leave(stream.number)
            except OSError:
                pass  # as there was none to take

    def _open_streams(self) -> list[_Stream]:
        return [stream for stream in self._streams.values() if not stream.done]

    async def _others(self) -> None:
        """Waits a moment for those who bring streams in our place."""
        try:
            async with asyncio.timeout(_LAST_OF_OTHERS):
                for stream in self._open_streams():
                    while not stream.ours and not self._locked(stream):
                        await asyncio.sleep(_LOCK_PAUSE / 10)
                    stream.ours = True
                    self._leave(stream)
        except TimeoutError:
            pass
        have = complete(self._folder.logs)
        for stream in self._open_streams():
            if stream.label in have:
                self._done(stream)

    # --- the scheduler --------------------------------------------------------------------------------------------

    def _fetch_soon(self) -> None:
        if self._fetching is None or self._fetching.done():
            self._fetching = asyncio.get_running_loop().create_task(self._fetch())

    async def _fetch(self) -> None:
        """What executors that are gone had printed. Of files that were begun anew nobody knows where they go on."""
        await asyncio.sleep(0)
        wanted = [stream for stream in self._streams.values() if not _is_whole(stream)]
        taken = [stream for stream in wanted if not stream.ours and self._locked(stream)]
        streams = [stream for stream in wanted if stream.ours or stream in taken]
        try:
            await _fetched(self._submitter, self._folder, _Sink(self._mirror, streams, again=False), self._notice)
        finally:
            for stream in taken:
                stream.ours = True
                self._leave(stream)


async def _fetched(
    submitter: Submitter | None, folder: JobFolder, sink: LogSink, notice: Callable[[str], None], owner: str = ""
) -> bool:
    """Takes what the scheduler finds; answers whether that was everything."""
    if submitter is None:
        return False
    try:
        async with asyncio.timeout(_FETCH):
            if not owner and not (folder.summary.exists() and event_log.segments(folder.path)):
                await submitter.fetch(folder)  # for the newest events
            containers = await to_thread(_ended_containers, folder)
            await submitter.fetch_logs(folder, containers, sink, owner=owner)
    except TimeoutError:
        notice(f"some output may be missing: the scheduler did not show it within {_FETCH:g} s")
    except (TonyError, OSError) as error:
        notice(f"some output may be missing: {_on_a_line(error)}")
    else:
        return True
    return False


def _on_a_line(error: Exception) -> str:
    """What went wrong, of which a list of daemons that do not answer has several lines."""
    return " ".join(str(error).split())


def _ended_containers(folder: JobFolder) -> dict[str, str]:
    """Containers that have ended, and their hosts; all, of a job that has."""
    held: dict[str, str] = {}
    ended: dict[str, str] = {}
    for entry in event_log.read(event_log.segments(folder.path)):
        if isinstance(entry.event, Granted):
            held[entry.event.container] = entry.event.host
        elif isinstance(entry.event, ContainerEnded):
            host = held.pop(entry.event.container, None)
            if host is not None:
                ended[entry.event.container] = host
    return {**ended, **held} if folder.summary.exists() else ended


class _Sink:
    """Adds what a scheduler finds to the copies here.

    Args:
        again: begin copies anew that cannot be gone on with.
        most: bytes of a file that is taken; None: of any length.

    Attributes:
        too_long: names of those that were not.
    """

    def __init__(self, mirror: Mirror, streams: Iterable[_Stream], *, again: bool, most: int | None = None) -> None:
        self._mirror = mirror
        self._streams = {(str(stream.task), stream.stream) for stream in streams}
        self._again = again
        self._most = most
        self.too_long: list[str] = []

    def begins(self, name: str, older: int, newer: int) -> int | None:
        """How much of it is here."""
        parsed = LogName.parse(name)
        if parsed is None or parsed.file != name or (parsed.task, parsed.stream) not in self._streams:
            return None
        if self._most is not None and older + newer > self._most:
            self.too_long.append(name)
            return None
        self._mirror.forget(parsed)
        here = self._mirror.sizes(parsed)
        if here == (older, newer):
            return None
        if older or self._mirror.is_rotated(parsed) or sum(here) > newer:
            if any(here) and not self._again:
                return None
            self._mirror.remove(parsed)
            return 0
        return here[1]

    def put(self, name: str, start: int, offset: int, data: bytes) -> None:
        """Keeps a piece."""
        parsed = LogName.parse(name)
        assert parsed is not None
        self._mirror.write(parsed, start, offset, data)


def far_submitter(home: Home, record: JobRecord) -> Submitter | None:
    """Who knows where a job's output is; None if it is here, or nobody knows."""
    if not is_elsewhere(record.spec.scheduler):
        return None
    try:
        submitter = facts.submitter_of(home, record)
    except InfraError:
        return None
    return None if submitter.capabilities.log_files else submitter


@asynccontextmanager
async def bringing(
    home: Home, record: JobRecord, selection: Selection, notice: Callable[[str], None]
) -> AsyncIterator[LogFetcher | None]:
    """Inside, what programs print comes into the job's folder; None where it is there, or comes by itself.

    Raises:
        StorageError: nothing can be written there.
    """
    submitter = far_submitter(home, record)
    folder = home.job(record.job_id)
    if submitter is None:
        yield None
        return
    if folder.summary.exists():
        await _bring_all(folder, record, submitter, selection, notice)
        yield None
        return
    logs = LogFetcher(folder, record, submitter, selection, notice, wait=True)
    logs.start()
    try:
        yield logs
    finally:
        await logs.close()


async def bring(home: Home, record: JobRecord, selection: Selection, notice: Callable[[str], None]) -> None:
    """Brings what was printed so far, from whoever has it; nothing where it is here by itself.

    Raises:
        StorageError: nothing can be written there.
    """
    submitter = far_submitter(home, record)
    folder = home.job(record.job_id)
    if submitter is None:
        return
    if not folder.summary.exists():
        try:
            await facts.load_report(home, record.job_id)  # it also finds out where the application master is
        except TonyError as error:
            notice(f"what was printed last may be missing: {_on_a_line(error)}")
            return
    if folder.summary.exists():
        await _bring_all(folder, record, submitter, selection, notice)
        return
    logs = LogFetcher(folder, record, submitter, selection, notice, wait=False)
    logs.start()
    try:
        await logs.finished()
    finally:
        await logs.close()


async def bring_ended(
    folder: JobFolder,
    record: JobRecord,
    submitter: Submitter,
    selection: Selection,
    notice: Callable[[str], None],
    owner: str,
) -> None:
    """Brings what was printed in a job that has ended, and whose record is not one of our own home's.

    Args:
        folder: of ours, with a copy of the record.
        owner: whose the record is where it lies, and so the job must be, as the scheduler knows them.

    Raises:
        StorageError: nothing can be written there.
    """
    await _bring_all(folder, record, submitter, selection, notice, owner)


async def _bring_all(
    folder: JobFolder,
    record: JobRecord,
    submitter: Submitter,
    selection: Selection,
    notice: Callable[[str], None],
    owner: str = "",
) -> None:
    """Of a job that has ended."""
    missing = list(_streams(folder.logs, record, selection))
    if not missing:
        return
    mirror = Mirror(folder.logs)
    try:
        sink = _Sink(mirror, missing, again=True, most=_MOST_OF_OTHERS if owner else None)
        whole = await _fetched(submitter, folder, sink, notice, owner)
        if sink.too_long:
            notice(f"{sink.too_long[0]} is longer than {_MOST_OF_OTHERS >> 30} GiB: see it with `yarn logs`")
        if whole:
            note_complete(folder.logs, [stream.label for stream in missing])
    finally:
        mirror.close()


def _streams(logs: Path, record: JobRecord, selection: Selection) -> Iterable[_Stream]:
    """The wanted streams that are not complete."""
    have = complete(logs)
    for at, task in enumerate(record.spec.task_ids):
        if selection.tasks is None or str(task) in selection.tasks:
            for offset, stream in enumerate(("out", "err")):
                made = _Stream(2 * at + offset, task, stream)
                if stream in selection.streams and made.label not in have:
                    yield made


def _is_whole(stream: _Stream) -> bool:
    return stream.done and not stream.missed


def _why(error: TonyError) -> str:
    if isinstance(error, ProtocolError) and error.code == Code.UNKNOWN_KIND:
        return "its version is older than this tony; see the output when the job has ended: tony logs"
    return str(error)
