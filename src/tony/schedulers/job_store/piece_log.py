"""An event log as a row of numbered, immutable pieces, in a store that creates an object only if there is none.

The writer creates piece after piece, one at a time. A later AM attempt fences it by creating the *closing* piece at the
first free number: from then on the writer's next piece is refused, however long it was suspended, and the log no longer
changes. No clock, lease or rename is needed. A writer whose piece is refused reads the one that is there: its own, if
an answer was lost; the closing one, if it is superseded.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from tony.errors import InfraError, StorageError
from tony.retry import Backoff

#: Bytes of one piece; a few of them are packed into one object of a store.
MAX_PIECE_BYTES = 256 << 10
#: Shortest time in seconds between two pieces, so that a burst of events is one piece.
_URGENT_SECONDS = 0.05
_BACKOFF = Backoff(first=0.1, most=5.0)


@dataclass(frozen=True, slots=True)
class EventLogPiece:
    """A piece of a log.

    Attributes:
        writer: identifies the process that wrote it.
        data: whole lines; empty in the first piece, which claims the log, and in the closing one.
        is_closing: no piece follows.
    """

    writer: str
    data: bytes = b""
    is_closing: bool = False


class PieceStore(Protocol):
    """The pieces of one log. Blocks; every method may raise InfraError."""

    def create(self, number: int, piece: EventLogPiece) -> bool:
        """Create a piece; return False if there is one of that number."""
        ...

    def read(self, number: int) -> EventLogPiece | None:
        """Return a piece; None if there is none."""
        ...

    def list_sizes(self) -> Mapping[int, int]:
        """Return the bytes of each piece, by number."""
        ...


class SupersededLogError(InfraError):
    """Another process has taken over the log."""


def claim_log(store: PieceStore, writer: str) -> bool:
    """Create a log, of which this process is the writer; return False if another process did."""
    if store.create(0, EventLogPiece(writer)):
        return True
    first = store.read(0)
    return first is not None and first.writer == writer and not first.is_closing


def close_log(store: PieceStore, writer: str) -> None:
    """Fence the writer of a log. Repeatable."""
    sizes = store.list_sizes()
    number = 0
    while number in sizes:  # the first free number, which the writer takes next
        number += 1
    while not (number and (last := store.read(number - 1)) and last.is_closing):
        if store.create(number, EventLogPiece(writer, is_closing=True)):
            return
        number += 1


def read_log(store: PieceStore, place: str, offset: int, most: int, *, readers: int = 1) -> bytes | None:
    """Return at most `most` bytes of a log; None if there is none.

    Args:
        place: where it is, for messages.
        readers: pieces that are read at the same time.

    Raises:
        StorageError: pieces of it are missing.
    """
    sizes = store.list_sizes()
    if not sizes:
        return None
    if sizes.keys() != set(range(len(sizes))):
        raise StorageError(f"{place}: pieces are missing")
    numbers: list[int] = []
    at = first = 0
    for number in sorted(sizes):
        if sizes[number] and at + sizes[number] > offset and at < offset + most:
            first = first if numbers else at
            numbers.append(number)
        at += sizes[number]
    from concurrent.futures import ThreadPoolExecutor  # late: an AM that writes needs none

    with ThreadPoolExecutor(readers) as pool:
        data = b""
        for number, piece in zip(numbers, pool.map(store.read, numbers), strict=True):
            if piece is None or len(piece.data) != sizes[number]:
                raise StorageError(f"{place}: piece {number} is missing, or was changed")
            data += piece.data
    return data[max(0, offset - first) :][:most]


class PieceLog:
    """A log that this process has claimed. A thread writes it; no method blocks, except for `close`.

    Args:
        interval: seconds between two pieces that are not urgent.
        most_waiting: most bytes that are accepted before they are durable.
        on_durable: called in the thread with the number of durable bytes: when it grows, and when the log has ended.
    """

    def __init__(
        self,
        store: PieceStore,
        writer: str,
        interval: float,
        most_waiting: int,
        on_durable: Callable[[int], None],
    ) -> None:
        self._store, self._writer = store, writer
        self._interval, self._most_waiting, self._on_durable = interval, most_waiting, on_durable
        self._changed = threading.Condition()
        self._queue: deque[bytes] = deque()
        self._accepted = self._durable = self._urgent = 0
        self._error: InfraError | None = None
        self._trouble: InfraError | None = None
        self._is_closing = self._is_abandoned = False
        self._thread = threading.Thread(target=self._run, name="piece-log", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """The number of bytes that are not durable yet."""
        with self._changed:
            return self._accepted - self._durable

    @property
    def error(self) -> InfraError | None:
        """The error that ended the log."""
        return self._error

    @property
    def trouble(self) -> InfraError | None:
        """The error being retried, or the one that ended the log."""
        with self._changed:
            return self._error or self._trouble

    def write(self, data: bytes) -> None:
        """Queue whole lines.

        Raises:
            InfraError: the log has ended, or too many bytes are waiting.
        """
        with self._changed:
            if self._error:
                raise self._error
            if self._accepted - self._durable + len(data) > self._most_waiting:
                raise InfraError(f"{self._accepted - self._durable} bytes of the event log are waiting already")
            if data:
                self._queue.append(data)
                self._accepted += len(data)
                self._changed.notify_all()

    def hurry(self) -> None:
        """Write what is queued now."""
        with self._changed:
            self._urgent = self._accepted
            self._changed.notify_all()

    def close(self, timeout: float) -> None:
        """Write what is queued, and end the thread."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join(timeout)

    def abandon(self) -> None:
        """Drop what is queued, and end the thread."""
        with self._changed:
            self._is_closing = self._is_abandoned = True
            self._changed.notify_all()

    def _run(self) -> None:
        number = 1
        pauses = iter(_BACKOFF)
        written_at = 0.0
        data: bytes | None = None
        while True:
            # A piece whose answer was lost is written again as it was, whatever has been queued since.
            data = self._wait_for_data(written_at) if data is None else data
            if data is None or self._is_abandoned:
                return
            try:
                self._write_piece(number, data)
            except SupersededLogError as error:
                self._end(error)
                return
            except InfraError as error:
                with self._changed:
                    self._trouble = error
                    self._changed.wait_for(lambda: self._is_abandoned, next(pauses))
                continue
            number += 1
            written_at = time.monotonic()
            pauses = iter(_BACKOFF)
            with self._changed:
                self._drop(len(data))
                self._durable += len(data)
                self._trouble = None
                durable = self._durable
            data = None
            self._on_durable(durable)

    def _write_piece(self, number: int, data: bytes) -> None:
        piece = EventLogPiece(self._writer, data)
        if not self._store.create(number, piece) and self._store.read(number) != piece:
            raise SupersededLogError(f"piece {number} of the event log was written by another process")

    def _wait_for_data(self, written_at: float) -> bytes | None:
        """Return the bytes of the next piece once it is due; None when the log is closed."""
        with self._changed:
            while True:
                if self._is_abandoned or (self._is_closing and not self._queue):
                    return None
                pause = _URGENT_SECONDS if self._urgent > self._durable or self._is_closing else self._interval
                left = written_at + pause - time.monotonic()
                if self._queue and left <= 0:
                    return self._peek()
                self._changed.wait(left if self._queue else None)

    def _peek(self) -> bytes:
        """Return the first queued bytes up to a line end, at most `MAX_PIECE_BYTES` unless a line is longer."""
        data = b"".join(self._queue)
        self._queue.clear()
        self._queue.append(data)
        if len(data) <= MAX_PIECE_BYTES:
            return data
        end = data.rfind(b"\n", 0, MAX_PIECE_BYTES) + 1 or data.find(b"\n") + 1 or len(data)
        return data[:end]

    def _drop(self, count: int) -> None:
        first = self._queue.popleft()
        if rest := first[count:]:
            self._queue.appendleft(rest)

    def _end(self, error: InfraError) -> None:
        with self._changed:
            self._error = error
            durable = self._durable
        self._on_durable(durable)
