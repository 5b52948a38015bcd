"""Fetches output that the scheduler has: of executors that have exited, and of jobs that have ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tony.core.events import ContainerEnded, FirstOutput, Granted
from tony.errors import InfraError, TonyError, join_lines
from tony.history import event_log
from tony.jobs.log_files import Selection, find_log_files
from tony.jobs.remote.log_mirror import Mirror, complete, note_complete
from tony.jobs.remote.stream_end import StreamEndSearch
from tony.linux.thread_pools import to_thread
from tony.model.ids import TaskId
from tony.model.log_file_tail import LogFileTail
from tony.model.log_name import STREAMS, LogName
from tony.model.state_directory import JobFolder
from tony.model.submission_record import JobRecord
from tony.schedulers.client_interface import LogSink, Submitter
from tony.units import format_first

#: Maximum bytes of one log file of another user's job.
_MAX_FOREIGN_FILE_BYTES = 2 << 30
#: Task attempts that are listed in one sentence.
_MAX_LISTED = 3
#: Seconds at a job's end for the scheduler to provide output that the AM did not.
_SCHEDULER_TIMEOUT_SECONDS = 30.0


@dataclass(slots=True, eq=False)
class RemoteStream:
    """One task's `out` or `err`.

    Attributes:
        number: among all streams of the job.
        is_writer: this process holds the lock and writes the local files.
        most: bytes that the open request may return; 0 if none is open.
        done: the stream is complete.
        missed: the AM could not get some of the output.
        search: for the end of what another process copies; None if nothing depends on that.
    """

    number: int
    task: TaskId
    stream: str
    name: str = ""
    offset: int = 0
    is_writer: bool = False
    most: int = 0
    full: bool = False
    done: bool = False
    missed: bool = False
    search: StreamEndSearch | None = None

    @property
    def label(self) -> str:
        """The name for messages and for `.complete`."""
        return f"{self.task} {self.stream}"

    def matches(self, name: LogName) -> bool:
        return (name.role, name.index, name.stream) == (self.task.role, self.task.index, self.stream)


async def fetch_from_scheduler(
    submitter: Submitter | None,
    folder: JobFolder,
    sink: SchedulerLogSink,
    notice: Callable[[str], None],
    owner: str = "",
) -> bool:
    """Fetch what the scheduler has; return True if that was everything."""
    if submitter is None:
        return False
    try:
        await fetch_files(submitter, folder, sink, owner)
        lost = await to_thread(_find_lost_attempts, folder, sink)
    except (TonyError, OSError) as error:
        notice(f"some output may be missing: {join_lines(error)}")
    else:
        if lost:
            tasks = format_first(lost, _MAX_LISTED)
            notice(f"nothing was kept of the output of {tasks}: its container ended before it was read")
        return not lost
    return False


async def fetch_files(submitter: Submitter, folder: JobFolder, sink: LogSink, owner: str = "") -> None:
    """Pass the files that the scheduler has to a sink.

    Raises:
        InfraError: it did not provide them in time, or not all.
        TonyError, OSError: a service cannot be reached or refuses, or a file cannot be written.
    """
    try:
        async with asyncio.timeout(_SCHEDULER_TIMEOUT_SECONDS):
            if not owner and not (folder.summary.exists() and event_log.segments(folder.path)):
                await submitter.fetch(folder)  # for the newest events
            containers = await to_thread(_find_ended_containers, folder)
            await submitter.fetch_logs(folder, containers, sink, owner=owner)
    except TimeoutError:
        raise InfraError(f"the scheduler did not provide it within {_SCHEDULER_TIMEOUT_SECONDS:g} s") from None


def _find_lost_attempts(folder: JobFolder, sink: SchedulerLogSink) -> list[str]:
    """Return the wanted task attempts of an ended job that have printed something and have no log."""
    if not folder.summary.exists():
        return []
    have = {(name.task, name.session, name.try_) for name in find_log_files(folder.logs, Selection())}
    events = (entry.event for entry in event_log.read(event_log.segments(folder.path)))
    printed = [event for event in events if isinstance(event, FirstOutput) and sink.is_selected(str(event.task))]
    lost = [each for each in printed if (str(each.task), each.session, each.try_) not in have]
    return [f"{each.task} (session {each.session}, attempt {each.try_})" for each in lost]


def _find_ended_containers(folder: JobFolder) -> dict[str, str]:
    """Return container -> host of ended containers; of all, if the job has ended."""
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


class SchedulerLogSink:
    """Appends log files provided by a scheduler to the local copies.

    Args:
        replaces: replace copies that cannot be continued.
        skips: take the end of a file although bytes before it are missing.
        most: maximum bytes of a file; None for any length.

    Attributes:
        too_long: names of files that exceeded `most`.
        has_refused: the end of a file was not taken.
    """

    def __init__(
        self,
        mirror: Mirror,
        streams: Iterable[RemoteStream],
        *,
        replaces: bool,
        skips: bool = True,
        most: int | None = None,
    ) -> None:
        self._mirror = mirror
        self._streams = {(str(stream.task), stream.stream) for stream in streams}
        self._replaces, self._skips = replaces, skips
        self._most = most
        self.too_long: list[str] = []
        self.has_refused = False

    def is_selected(self, task: str) -> bool:
        """Return True if a stream of a task is wanted."""
        return any((task, stream) in self._streams for stream in STREAMS)

    def find_start(self, name: str, older: int, newer: int) -> int | None:
        """Return the offset from which on a file is needed; None to skip it."""
        parsed = LogName.parse(name)
        if parsed is None or parsed.file != name or (parsed.task, parsed.stream) not in self._streams:
            return None
        if self._most is not None and older + newer > self._most:
            self.too_long.append(name)
            return None
        self._mirror.forget(parsed)
        local_sizes = self._mirror.read_sizes(parsed)
        if local_sizes == (older, newer):
            return None
        if older or self._mirror.is_rotated(parsed) or sum(local_sizes) > newer:
            if any(local_sizes) and not self._replaces:
                return None
            self._mirror.remove(parsed)
            return 0
        return local_sizes[1]

    def put(self, name: str, start: int, offset: int, data: bytes) -> None:
        """Write a piece."""
        parsed = LogName.parse(name)
        assert parsed is not None
        self._mirror.write(parsed, start, offset, data)

    def put_tail(self, tail: LogFileTail) -> None:
        name = LogName.parse(tail.name)
        if name is None or name.file != tail.name or (name.task, name.stream) not in self._streams:
            return
        self._mirror.forget(name)
        if tail.offset > self._mirror.end(name) and not self._skips:
            self.has_refused = True
        else:
            self._mirror.write(name, 0, tail.offset, tail.data, tail.times)

    def put_index(self, file: str, data: bytes) -> None:
        """Write an index of times."""
        if LogName.parse(file):
            self._mirror.write_index(file, data)


async def fetch_ended(
    folder: JobFolder,
    record: JobRecord,
    submitter: Submitter,
    selection: Selection,
    notice: Callable[[str], None],
    owner: str = "",
) -> None:
    """Fetch the output of a job that has ended.

    Args:
        folder: of the job, or a local copy.
        owner: of a job that is not in the user's own state directory: the owner of the job directory in its file
            system, and so of the job as the scheduler knows it.

    Raises:
        StorageError: the job directory cannot be written.
    """
    missing = list(select_streams(folder.logs, record, selection))
    if not missing:
        return
    mirror = Mirror(folder.logs)
    try:
        sink = SchedulerLogSink(mirror, missing, replaces=True, most=_MAX_FOREIGN_FILE_BYTES if owner else None)
        whole = await fetch_from_scheduler(submitter, folder, sink, notice, owner)
        if sink.too_long:
            own = submitter.find_logs_command(record.job_id)
            how = f"; read it with: {own}" if own else ""
            notice(f"{sink.too_long[0]} is longer than {_MAX_FOREIGN_FILE_BYTES >> 30} GiB{how}")
        if whole:
            note_complete(folder.logs, [stream.label for stream in missing])
    finally:
        mirror.close()


def select_streams(logs: Path, record: JobRecord, selection: Selection) -> Iterable[RemoteStream]:
    """Yield the selected streams that are not complete."""
    have = complete(logs)
    for at, task in enumerate(record.spec.task_ids):
        if selection.tasks is None or str(task) in selection.tasks:
            for offset, stream in enumerate(STREAMS):
                made = RemoteStream(2 * at + offset, task, stream)
                if stream in selection.streams and made.label not in have:
                    yield made
