"""A file in HDFS that grows durably, and that everybody can read while it does.

HDFS shows readers what a *closed* file holds; of an open one most see nothing. So the log is created once, and then
each batch of bytes is an append of its own that is closed again: 30 ms on a quiet cluster, and 400 ms more whenever the
NameNode asks the DataNode's client to come again (`dfs.client.block.write.locateFollowingBlock.initial.delay.ms` on the
DataNodes). A thread of its own does that, so that whoever writes never waits for HDFS.

What holds:

- After `flush()` returned True, every byte that was written before it is in HDFS: acknowledged by all DataNodes of the
  block's pipeline, counted in the file's length, and seen by every reader that opens the file from then on. (DataNodes
  have it in their page caches; `dfs.datanode.synconclose` makes them sync disks as well.)
- Without `flush()` bytes go out about `interval` seconds after they were written, in order. A reader sees a prefix of
  what was written, always; it may end in the middle of a write, while DataNodes fail.
- Trouble is repaired in the background for `patience` seconds: before bytes are sent again the file is fenced (an
  append of nothing: whoever had it open can write no more) and its length says how many had arrived. So no byte is
  there twice.
- One writer at a time. A successor opens the log with the same path and goes on behind what its predecessor wrote: if
  that was killed, its hold ends when its connection does; if the DataNode that served it was killed, a minute later
  (the lease's soft limit). If the writer's machine vanished, the DataNode keeps the connection, and the hold, for
  hours: only `recover` helps then, and in the other cases it is quicker. If the last write was cut off, a separator
  comes first, so that only this one record is damaged.
- Another writer's bytes are noticed wherever the length is looked at, and end the log with `ForeignWriterError`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from tony.dataclass import dataclass
from tony.hadoop.hdfs.errors import BeingWrittenError
from tony.hadoop.hdfs.file_system import FileStatus
from tony.hadoop.hdfs.upload_body import Content
from tony.hadoop.ipc.errors import (
    AccessControlError,
    AuthorizationError,
    ConnectError,
    FileExistsAlreadyError,
    FileMissingError,
    HadoopError,
    InvalidTokenError,
    LoginError,
)


class ForeignWriterError(HadoopError):
    """Somebody else wrote into the log, or replaced it; there must be one writer only."""


class LogFullError(HadoopError):
    """More bytes wait for HDFS than may; nothing of this write was taken."""


class Appendable(Protocol):
    """What the log needs of a file system; a WebHDFS client is one."""

    def find(self, path: str) -> FileStatus | None: ...

    def create(
        self,
        path: str,
        content: Content,
        *,
        permission: int | None = None,
        overwrite: bool = False,
        replication: int | None = None,
    ) -> None: ...

    def append(self, path: str, content: Content) -> None: ...

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendOptions:
    """How a log behaves.

    Attributes:
        interval: seconds between two appends, unless somebody waits in `flush`.
        most_batch: bytes sent by one append.
        most_waiting: bytes kept in memory while HDFS is in trouble.
        patience: seconds of trouble after which the log gives up. The lease's soft limit (60 s) and the start of a
            NameNode should be in it.
        longest_pause: seconds between two tries, at most; half a second where somebody waits in `flush`.
        permission: bits of a new file; None for the server's default.
        replication: copies of each block of a new file; None for the server's default.
        separator: ends every write of the caller's; see above. Empty: nothing is put in.
    """

    interval: float = 0.25
    most_batch: int = 4 * 2**20
    most_waiting: int = 64 * 2**20
    patience: float = 600.0
    longest_pause: float = 5.0
    permission: int | None = None
    replication: int | None = None
    separator: bytes = b"\n"


#: Seconds between two tries, at most, while somebody waits for the bytes to arrive.
_HURRIED_PAUSE = 0.5
#: Trouble that patience does not cure.
_FINAL = (AccessControlError, AuthorizationError, InvalidTokenError, LoginError, FileMissingError, ForeignWriterError)


class AppendLog:
    """The log; writing begins in the background at once, opening included.

    Args:
        client: the file system.
        path: of the log; created if it is not there, continued if it is.
        options: how it behaves.
        recover: takes a file from a writer that died, at once: `NameNode.recover_lease` by RPC, which HTTP lacks.
            It is called whenever the file is somebody else's, again and again.
        told: hears, in the log's own thread, how many of the bytes that were written are durable: whenever there are
            more, and once more when the log has ended.
    """

    def __init__(
        self,
        client: Appendable,
        path: str,
        options: AppendOptions | None = None,
        *,
        recover: Callable[[str], object] | None = None,
        told: Callable[[int], object] = lambda durable: None,
    ) -> None:
        self._client = client
        self._path = path
        self._options = options or AppendOptions()
        self._recover = recover
        self._told = told
        self._changed = threading.Condition()
        self._waiting: deque[bytes] = deque()
        self._written = 0  # bytes taken from the caller
        self._durable = 0  # of these, those that are in HDFS
        self._flush_to = 0
        self._closing = False
        self._ended = False
        self._error: HadoopError | None = None
        self._trouble: HadoopError | None = None
        self._length = 0  # of the file, as far as we know
        self._thread = threading.Thread(target=self._run, name="append-log", daemon=True)
        self._thread.start()

    @property
    def path(self) -> str:
        """Of the file."""
        return self._path

    @property
    def length(self) -> int:
        """Bytes of the file that are durable; 0 before it was opened."""
        with self._changed:
            return self._length

    @property
    def waiting(self) -> int:
        """Bytes that are not durable yet."""
        with self._changed:
            return self._written - self._durable

    @property
    def trouble(self) -> HadoopError | None:
        """What is being repaired at the moment, or what the log gave up at."""
        with self._changed:
            return self._error or self._trouble

    def write(self, data: bytes) -> None:
        """Takes bytes; never waits for HDFS.

        Raises:
            LogFullError: too many bytes wait already.
            HadoopError: the log gave up before; it takes nothing more.
            ValueError: the log was closed.
        """
        with self._changed:
            if self._closing:
                raise ValueError("the log is closed")
            if self._error is not None:
                raise self._error
            if self._written - self._durable + len(data) > self._options.most_waiting:
                raise LogFullError(
                    f"{self._path}: {self._written - self._durable} bytes wait for HDFS already; "
                    f"its trouble: {self._trouble or 'it is slow'}"
                )
            if data:
                self._waiting.append(bytes(data))
                self._written += len(data)
                self._changed.notify_all()

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until all that was written is durable and visible.

        Args:
            timeout: seconds; None to wait as long as the log is patient.

        Returns:
            Whether it is. False: the time is up, and the log goes on trying.

        Raises:
            HadoopError: the log gave up.
        """
        with self._changed:
            goal = self._written
            self._flush_to = max(self._flush_to, goal)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._durable >= goal or self._ended, timeout)
            if self._durable < goal and self._error is not None:
                raise self._error
            return self._durable >= goal

    def hurry(self) -> None:
        """Has everything that was written so far go out at once, and waits for nothing."""
        with self._changed:
            self._flush_to = self._written
            self._changed.notify_all()

    @property
    def error(self) -> HadoopError | None:
        """What the log gave up at."""
        with self._changed:
            return self._error

    def close(self, timeout: float | None = None) -> bool:
        """Takes no more, and waits as `flush` does; the thread ends when it is done.

        Raises:
            HadoopError: the log gave up, now or before.
        """
        with self._changed:
            self._closing = True
            self._flush_to = self._written
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._ended, timeout)
            ended, error = self._ended, self._error
        if ended:
            self._thread.join()
            if error is not None:
                raise error
        return ended

    def abandon(self) -> None:
        """Gives up what is not durable yet, and ends soon; for programs that must end now."""
        with self._changed:
            self._closing = True
            self._waiting.clear()
            self._error = self._error or HadoopError(f"{self._path}: the log was abandoned.")
            self._changed.notify_all()

    # The thread

    def _run(self) -> None:
        try:
            self._patiently(self._begin)
            while (batch := self._next_batch()) is not None:
                self._put(batch)
        except Exception as error:  # the thread's end: whoever waits must learn of it
            known = error if isinstance(error, HadoopError) else HadoopError(f"{self._path}: {error!r:.500}")
            with self._changed:
                self._error = self._error or known
        finally:
            with self._changed:
                self._ended = True
                durable = self._durable
                self._changed.notify_all()
            self._told(max(0, durable))

    def _next_batch(self) -> bytes | None:
        """What shall go out next; None when all is done."""
        options = self._options
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing or self._error)
            self._changed.wait_for(self._is_urgent, options.interval)
            if self._error is not None:
                raise self._error
            parts: list[bytes] = []
            size = 0
            while self._waiting and (not parts or size + len(self._waiting[0]) <= options.most_batch):
                parts.append(self._waiting.popleft())
                size += len(parts[-1])
        return b"".join(parts) if parts else None

    def _is_urgent(self) -> bool:
        return self._flush_to > self._durable or self._closing or self._error is not None

    def _put(self, batch: bytes) -> None:
        """Sends a batch, and what did not arrive of it again."""
        view = memoryview(batch)
        doubt = False

        def send() -> None:
            nonlocal view, doubt
            if doubt:
                view = view[self._arrived(view) :]
                doubt = False
            if not view:
                return
            try:
                self._client.append(self._path, view)
            except ConnectError:
                raise
            except HadoopError:
                doubt = True
                raise
            self._grew(len(view))
            view = view[len(view) :]

        self._patiently(send)

    def _arrived(self, view: memoryview) -> int:
        """How many of these bytes are in the file after an append that failed; they count as durable then."""
        length = self._fenced()
        arrived = length - self._length
        if not 0 <= arrived <= len(view):
            raise self._foreign(length)
        if arrived and self._client.read(self._path, self._length, arrived) != bytes(view[:arrived]):
            raise self._foreign(length)
        self._grew(arrived)
        return arrived

    def _begin(self) -> None:
        """Creates the file, or takes it from whoever had it."""
        options = self._options
        try:
            self._client.create(self._path, b"", permission=options.permission, replication=options.replication)
        except FileExistsAlreadyError:  # a predecessor's, or our own try before
            length = self._fenced()
        else:
            return
        with self._changed:
            self._length = length
        separator = options.separator
        if length and separator and self._client.read(self._path, length - len(separator)) != separator:
            with self._changed:
                self._waiting.appendleft(separator)
                self._durable -= len(separator)  # no byte of the caller's: `flush` shall not count it

    def _fenced(self) -> int:
        """The file's length when nobody has it open any more."""
        self._client.append(self._path, b"")
        status = self._client.find(self._path)
        if status is None:
            raise ForeignWriterError(f"{self._path}: somebody removed the log.")
        return status.length

    def _patiently(self, work: Callable[[], None]) -> None:
        """Does something until it works, with pauses that grow, or until it is hopeless."""
        since = time.monotonic()
        pause = 0.05
        while True:
            try:
                work()
            except HadoopError as error:
                if isinstance(error, _FINAL) or time.monotonic() - since + pause > self._options.patience:
                    raise
                self._pause(error, pause)
                pause = min(2 * pause, self._options.longest_pause)
            else:
                with self._changed:
                    self._trouble = None
                return

    def _pause(self, error: HadoopError, seconds: float) -> None:
        if isinstance(error, BeingWrittenError) and self._recover is not None:
            try:
                self._recover(self._path)
            except HadoopError:
                pass  # the next try tells
        with self._changed:
            self._trouble = error
            self._changed.wait_for(lambda: self._error, min(seconds, _HURRIED_PAUSE))
            self._changed.wait_for(self._is_urgent, max(0.0, seconds - _HURRIED_PAUSE))
            if self._error is not None:
                raise error

    def _grew(self, size: int) -> None:
        with self._changed:
            self._length += size
            self._durable += size
            durable = self._durable
            self._changed.notify_all()
        self._told(max(0, durable))

    def _foreign(self, length: int) -> ForeignWriterError:
        return ForeignWriterError(
            f"{self._path} has {length} bytes where we wrote {self._length}, and they are not ours:"
            " somebody else writes to this log."
        )
