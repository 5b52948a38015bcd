"""An append-only log file in HDFS, durable and readable while it grows.

HDFS readers see the content of a *closed* file, but most see nothing of an open one. So the log is created once, and
each batch of bytes is a separate append that closes the file: 30 ms on a quiet cluster, and 400 ms more whenever the
NameNode makes the DataNode's client retry (`dfs.client.block.write.locateFollowingBlock.initial.delay.ms` on the
DataNodes). A dedicated thread does that, so that `write` never waits for HDFS.

Guarantees:

- Every byte that `on_durable` counts, and every byte if `close()` returned True, is in HDFS: acknowledged by all
  DataNodes of the block's pipeline, counted in the file's length, and seen by every reader that opens the file from
  then on. (DataNodes keep it in their page caches; with `dfs.datanode.synconclose` they sync their disks as well.)
- Without `hurry()` bytes are sent about `interval` seconds after they were written, in order. A reader always sees a
  prefix of what was written; it may end in the middle of a write while DataNodes fail.
- Errors are repaired in the background for `timeout` seconds: before bytes are sent again the file is fenced (an
  empty append, after which an earlier writer can no longer write), and its length shows how many had arrived. So no
  byte is written twice.
- One writer at a time. A successor opens the log with the same path and continues after its predecessor's last byte. If
  the predecessor was killed, its lease ends with its connection; if the DataNode that served it was killed, a minute
  later (the lease's soft limit). If the writer's machine vanished, the DataNode keeps the connection, and the lease,
  for hours: only `recover` helps then, and it is faster in the other cases too. If the last write was cut off, the
  successor writes a separator first, so that only that record is damaged.
- Every check of the length detects bytes of another writer, and ends the log with `ForeignWriterError`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tony.hadoop.errors import (
    AccessControlError,
    AuthorizationError,
    BeingWrittenError,
    ConnectError,
    FileExistsAlreadyError,
    FileMissingError,
    HadoopError,
    InvalidTokenError,
    LoginError,
)
from tony.retry import Backoff

if TYPE_CHECKING:
    from tony.hadoop.hdfs.webhdfs import WebHdfs


class ForeignWriterError(HadoopError):
    """Another writer wrote to the log or replaced it; only one writer is allowed."""


class LogFullError(HadoopError):
    """Too many bytes are waiting for HDFS; nothing of this write was accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendOptions:
    """Options of a log.

    Attributes:
        interval: seconds between two appends, unless a caller is in a hurry.
        most_waiting: bytes kept in memory while HDFS is in trouble.
        timeout: seconds of trouble after which the log gives up. The lease's soft limit (60 s) and the start of a
            NameNode should be in it.
        longest_pause: maximum seconds between two attempts; half a second while a caller is in a hurry.
        permission: bits of a new file; None for the server's default.
        creates: a log that is not there is created; else it has been renamed or removed, and this writer is superseded.
    """

    interval: float = 0.25
    most_waiting: int = 64 * 2**20
    timeout: float = 600.0
    longest_pause: float = 5.0
    permission: int | None = None
    creates: bool = True


#: Bytes sent by one append.
_MAX_BATCH_BYTES = 4 * 2**20
#: Ends every write of the caller's; see above.
_SEPARATOR = b"\n"
#: Maximum seconds between two attempts while a caller is in a hurry.
_HURRIED_PAUSE_SECONDS = 0.5
#: Errors that are not retried.
_FINAL = (AccessControlError, AuthorizationError, InvalidTokenError, LoginError, FileMissingError, ForeignWriterError)


class AppendLog:
    """The log. A background thread opens the file and writes at once.

    Args:
        path: of the log; created if it is not there, continued if it is.
        options: how it behaves.
        recover: takes a file from a writer that died, at once: `NameNode.recover_lease` by RPC, which HTTP lacks.
            Called repeatedly while another writer holds the file.
        on_durable: called in the log's thread with the number of durable bytes: whenever it grows, and when the log has
            ended.
    """

    def __init__(
        self,
        client: WebHdfs,
        path: str,
        options: AppendOptions | None = None,
        *,
        recover: Callable[[str], object] | None = None,
        on_durable: Callable[[int], object] = lambda durable: None,
    ) -> None:
        self._client = client
        self._path = path
        self._options = options or AppendOptions()
        self._recover = recover
        self._on_durable = on_durable
        self._changed = threading.Condition()
        self._waiting: deque[bytes] = deque()
        self._written = 0  # bytes taken from the caller
        self._durable = 0  # of these, those that are in HDFS
        self._hurried = 0
        self._closing = False
        self._ended = False
        self._error: HadoopError | None = None
        self._trouble: HadoopError | None = None
        self._length = 0  # of the file, as last seen
        self._thread = threading.Thread(target=self._run, name="append-log", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """The number of bytes that are not durable yet."""
        with self._changed:
            return self._written - self._durable

    @property
    def trouble(self) -> HadoopError | None:
        """The error being retried, or the one that ended the log."""
        with self._changed:
            return self._error or self._trouble

    def write(self, data: bytes) -> None:
        """Queue bytes; never waits for HDFS.

        Raises:
            LogFullError: too many bytes are waiting already.
            HadoopError: the log has failed; it accepts nothing more.
            ValueError: the log was closed.
        """
        with self._changed:
            if self._closing:
                raise ValueError("the log is closed")
            if self._error is not None:
                raise self._error
            if self._written - self._durable + len(data) > self._options.most_waiting:
                raise LogFullError(
                    f"{self._path}: {self._written - self._durable} bytes are already waiting for HDFS; "
                    f"last error: {self._trouble or 'none, HDFS is slow'}"
                )
            if data:
                self._waiting.append(bytes(data))
                self._written += len(data)
                self._changed.notify_all()

    def hurry(self) -> None:
        """Send everything written so far at once, without waiting for it."""
        with self._changed:
            self._hurried = self._written
            self._changed.notify_all()

    @property
    def error(self) -> HadoopError | None:
        """The error that ended the log."""
        with self._changed:
            return self._error

    def close(self, timeout: float | None = None) -> bool:
        """Accept no more bytes, and wait until all are durable; the thread ends when all is sent.

        Raises:
            HadoopError: the log gave up, now or before.
        """
        with self._changed:
            self._closing = True
            self._hurried = self._written
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._ended, timeout)
            ended, error = self._ended, self._error
        if ended:
            self._thread.join()
            if error is not None:
                raise error
        return ended

    def abandon(self) -> None:
        """Drop the bytes that are not durable yet and end soon; for programs that must exit now."""
        with self._changed:
            self._closing = True
            self._waiting.clear()
            self._error = self._error or HadoopError(f"{self._path}: the log was abandoned")
            self._changed.notify_all()

    # The thread

    def _run(self) -> None:
        try:
            self._retry_patiently(self._begin)
            while (batch := self._take_next_batch()) is not None:
                self._put(batch)
        except Exception as error:  # ends the thread: a waiting caller must get the error
            known = error if isinstance(error, HadoopError) else HadoopError(f"{self._path}: {error!r:.500}")
            with self._changed:
                self._error = self._error or known
        finally:
            with self._changed:
                self._ended = True
                durable = self._durable
                self._changed.notify_all()
            self._on_durable(max(0, durable))

    def _take_next_batch(self) -> bytes | None:
        """Return the next batch to send; None when all is done."""
        options = self._options
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing or self._error)
            self._changed.wait_for(self._is_urgent, options.interval)
            if self._error is not None:
                raise self._error
            parts: list[bytes] = []
            size = 0
            while self._waiting and (not parts or size + len(self._waiting[0]) <= _MAX_BATCH_BYTES):
                parts.append(self._waiting.popleft())
                size += len(parts[-1])
        return b"".join(parts) if parts else None

    def _is_urgent(self) -> bool:
        return self._hurried > self._durable or self._closing or self._error is not None

    def _put(self, batch: bytes) -> None:
        """Send a batch, and send the part that did not arrive again."""
        view = memoryview(batch)
        doubt = False

        def send() -> None:
            nonlocal view, doubt
            if doubt:
                view = view[self._count_arrived(view) :]
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
            self._on_growth(len(view))
            view = view[len(view) :]

        self._retry_patiently(send)

    def _count_arrived(self, view: memoryview) -> int:
        """Return how many of these bytes a failed append has written; they count as durable."""
        length = self._fence_file()
        arrived = length - self._length
        if not 0 <= arrived <= len(view):
            raise self._build_foreign_error(length)
        if arrived and self._client.read(self._path, self._length, arrived) != bytes(view[:arrived]):
            raise self._build_foreign_error(length)
        self._on_growth(arrived)
        return arrived

    def _begin(self) -> None:
        """Create the file, or take it over from an earlier writer."""
        if self._options.creates:
            try:
                self._client.create(self._path, b"", permission=self._options.permission)
            except FileExistsAlreadyError:  # a predecessor's, or from an earlier attempt of this log
                pass
            else:
                return
        length = self._fence_file()
        with self._changed:
            self._length = length
        if length and self._client.read(self._path, length - len(_SEPARATOR)) != _SEPARATOR:
            with self._changed:
                self._waiting.appendleft(_SEPARATOR)
                self._durable -= len(_SEPARATOR)  # no byte of the caller's, so it does not count

    def _fence_file(self) -> int:
        """Fence the file against earlier writers and return its length."""
        self._client.append(self._path, b"")
        status = self._client.find(self._path)
        if status is None:
            raise ForeignWriterError(f"{self._path}: the log file was removed by another program")
        return status.length

    def _retry_patiently(self, work: Callable[[], None]) -> None:
        """Retry something with growing pauses until it succeeds, or fails for good."""
        since = time.monotonic()
        for pause in Backoff(first=0.05, most=self._options.longest_pause):
            try:
                work()
            except HadoopError as error:
                if isinstance(error, _FINAL) or time.monotonic() - since + pause > self._options.timeout:
                    raise
                self._pause(error, pause)
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
            self._changed.wait_for(lambda: self._error, min(seconds, _HURRIED_PAUSE_SECONDS))
            self._changed.wait_for(self._is_urgent, max(0.0, seconds - _HURRIED_PAUSE_SECONDS))
            if self._error is not None:
                raise error

    def _on_growth(self, size: int) -> None:
        with self._changed:
            self._length += size
            self._durable += size
            durable = self._durable
            self._changed.notify_all()
        self._on_durable(max(0, durable))

    def _build_foreign_error(self, length: int) -> ForeignWriterError:
        return ForeignWriterError(
            f"{self._path} has {length} bytes, but {self._length} were expected: another writer writes to this log"
        )
