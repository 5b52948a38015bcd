"""Who reads what our programs print while they run: asked through the application master, answered piece by piece.

Where nobody reads, nothing is done but to count. A reader that has read everything waits; it is answered when the
program prints more, when the next try prints, or when this executor ends.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
from collections.abc import Callable

from tony.dataclass import dataclass
from tony.executor.log_file import BoundedLogFile, FileChunk
from tony.executor.writer_thread import WriterThread
from tony.protocol.messages import LOG_PIECE, DropLog, LogPiece, ReadLog

#: Standard output and standard error, as messages and file names call them.
STREAMS = ("out", "err")
#: Readers at one time; whoever comes then takes the place of the one that came first.
_MOST = 1000
_TRY = re.compile(r"\.s(\d{1,9})\.t(\d{1,9})\.", re.ASCII)


@dataclass(slots=True, eq=False)
class Book:
    """What one try prints to one stream, as readers see it.

    Attributes:
        grown: how often something came.
        over: no more will come.
    """

    stream: str
    name: str
    file: BoundedLogFile
    grown: int = 0
    over: bool = False


@dataclass(slots=True, eq=False)
class _Reader:
    """One reader and the place that it has come to."""

    ask: ReadLog
    name: str
    offset: int


class LogReaders:
    """All readers of one executor's output. Lives on the event loop; reads in the pen's thread, where is written.

    Args:
        answer: sends a piece.
    """

    def __init__(self, pen: WriterThread, answer: Callable[[LogPiece], None]) -> None:
        self._pen = pen
        self._answer = answer
        self._books: dict[str, list[Book]] = {stream: [] for stream in STREAMS}
        self._readers: dict[int, _Reader] = {}
        self._waiting: set[_Reader] = set()
        self._closing = False
        self._left = asyncio.Event()

    # --- what programs do -----------------------------------------------------------------------------------------

    def opened(self, book: Book) -> None:
        """A try begins."""
        self._books[book.stream].append(book)
        self._wake(book)

    def came(self, book: Book) -> None:
        """It has printed something, which the pen has got."""
        book.grown += 1
        if self._waiting:
            self._wake(book)

    def over(self, book: Book) -> None:
        """It prints no more; the pen has got everything."""
        book.over = True

    def _wake(self, book: Book) -> None:
        for reader in [each for each in self._waiting if each.ask.stream == book.stream]:
            self._look(reader)

    # --- what readers do ------------------------------------------------------------------------------------------

    def ask(self, message: ReadLog) -> None:
        """Somebody wants a piece."""
        self.drop(DropLog(reader=message.reader))
        if message.stream in self._books:
            if len(self._readers) >= _MOST:
                self.drop(DropLog(reader=next(iter(self._readers))))
            reader = self._readers[message.reader] = _Reader(message, message.name, message.offset)
            self._look(reader)

    def drop(self, message: DropLog) -> None:
        """Somebody wants no more."""
        reader = self._readers.pop(message.reader, None)
        if reader:
            self._waiting.discard(reader)
            self._look_who_is_left()

    def forget(self) -> None:
        """Nobody reads: whoever did asks anew."""
        self._readers.clear()
        self._waiting.clear()
        self._look_who_is_left()

    async def finish(self, timeout: float) -> None:
        """Lets readers have the rest, within so many seconds. No program runs any more."""
        self._closing = True
        for reader in list(self._waiting):
            self._look(reader)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self._readers:
                    self._left.clear()
                    await self._left.wait()

    # --- inside ---------------------------------------------------------------------------------------------------

    def _look(self, reader: _Reader) -> None:
        self._waiting.discard(reader)
        book = self._book(reader)
        if book is None:
            self._nothing(reader)
            return
        loop = asyncio.get_running_loop()
        grown, over, offset, most = book.grown, book.over, reader.offset, min(max(reader.ask.most, 1), LOG_PIECE)

        def read() -> None:
            piece = book.file.read(offset, most)
            with contextlib.suppress(RuntimeError):  # that loop has ended
                loop.call_soon_threadsafe(self._found, reader, book, piece, grown, over)

        self._pen.put(read)

    def _found(self, reader: _Reader, book: Book, piece: FileChunk, grown: int, over: bool) -> None:
        if self._readers.get(reader.ask.reader) is not reader:
            return  # it has asked anew, or is gone
        if piece.data:
            data = base64.b64encode(piece.data).decode()
            number = reader.ask.reader
            self._answer(LogPiece(reader=number, name=book.name, start=piece.start, offset=piece.offset, data=data))
        elif book.grown != grown or book.over != over:
            self._look(reader)
        elif over and (later := self._after(book)):
            reader.name, reader.offset = later.name, 0
            self._look(reader)
        else:
            self._nothing(reader)

    def _nothing(self, reader: _Reader) -> None:
        if reader.ask.wait and not self._closing:
            self._waiting.add(reader)
            return
        number = reader.ask.reader
        self._answer(LogPiece(reader=number, last=self._closing))
        self.drop(DropLog(reader=number))

    def _book(self, reader: _Reader) -> Book | None:
        """The file that it reads, or the next one if that is not ours."""
        books = self._books[reader.ask.stream]
        for book in books:
            if book.name == reader.name:
                return book
        place = _order(reader.name)
        later = next((book for book in books if _order(book.name) > place), None)
        if later:
            reader.name, reader.offset = later.name, 0
        return later

    def _after(self, book: Book) -> Book | None:
        books = self._books[book.stream]
        at = books.index(book) + 1
        return books[at] if at < len(books) else None

    def _look_who_is_left(self) -> None:
        if not self._readers:
            self._left.set()


def _order(name: str) -> tuple[int, int]:
    """Session and try; before all of them for what is no name of ours."""
    found = _TRY.search(name)
    return (int(found[1]), int(found[2])) if found else (0, 0)
