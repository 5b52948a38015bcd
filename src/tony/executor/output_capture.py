"""What a program prints: from its pipes into files of bounded size, with the last lines at hand.

Everything is done in large pieces; nobody looks at single lines while it flows. Whoever was silent is heard at once;
what follows in small pieces gathers for a few milliseconds, so that a million short lines cost a few hundred readings.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tony import clock
from tony.executor.decisive_line import find_decisive_line, with_decisive_line
from tony.executor.log_file import BoundedLogFile
from tony.executor.log_serving import STREAMS, Book, LogReaders
from tony.executor.output_exports import Exports
from tony.executor.writer_thread import WriterThread
from tony.model.masking import MaskedStream, SecretMask

#: Size of a pipe once a program has filled one: 1 MiB where a user may (the default of pipe-max-size). Not from the
#: beginning: a user's share of pipe memory is 64 MiB (pipe-user-pages-soft), and who is beyond it gets pipes of 8 KiB.
_PIPE = 1 << 20
_READ = 1 << 18
#: Fewer bytes (or than half the pipe, where it is small) are a small piece; the next one gathers for so many seconds.
_MUCH = 1 << 16
_GATHER = 0.005
#: Seconds after which the beginning of what may be a secret is shown although its rest has not come.
_HOLD_SECONDS = 0.25
#: Bytes that may wait for the disk; beyond, the program's output stays in its pipe.
_UNWRITTEN = 8 << 20
#: Seconds after a program's end that its last output may take to reach the disk.
_SLOWEST_DISK = 60.0
#: Bytes at the end of a stream that are kept for `tail`.
_KEPT = 1 << 16
#: Bytes at the end of a stream in which the line is looked for that says why the program failed. They are only searched
#: once it has ended: looking at all that flows would cost more than everything else that is done with it.
_SEARCHED = 1 << 19
#: A tail's lines, and bytes of each: as much as the original put into its diagnostics, bounded for the wire.
TAIL_LINES, TAIL_BYTES = 20, 2000
LAST_LINE = 200
#: tqdm and the like end their lines with a carriage return.
_LINE_END = re.compile(rb"\r\n|\n|\r")


class Stream:
    """One of a program's output streams."""

    def __init__(
        self,
        file: BoundedLogFile,
        pen: WriterThread,
        came: Callable[[], None],
        over: Callable[[], None] = lambda: None,
        look: Callable[[bytes], None] | None = None,
        mask: SecretMask | None = None,
    ) -> None:
        """Makes the pipe; `writing` goes to the program, then `begin`.

        Args:
            pen: writes the file.
            came: is called when there was output.
            over: is called when there will be no more.
            look: is given all that comes, if somebody wants it.
            mask: puts stars in place of secrets, before anything else is done with the output; None: there are none.
        """
        self._reading, self.writing = os.pipe2(os.O_CLOEXEC)
        self._half = fcntl.fcntl(self._reading, fcntl.F_GETPIPE_SZ) // 2
        os.set_blocking(self._reading, False)
        self.file = file
        self._pen = pen
        self._came = came
        self._over = over
        self._look = look
        self.mask = mask
        self._masked = MaskedStream(mask) if mask else None
        self._releasing: asyncio.TimerHandle | None = None
        self._end = bytearray()
        self._taken = 0
        self._gathering: asyncio.TimerHandle | None = None
        self._grown = self._hurried = False
        self.ended = asyncio.Event()
        #: Each line begins with the local rank of its process (`rank_output`).
        self.is_labelled = False

    def begin(self) -> None:
        """The program has its end of the pipe: ours of it is closed, and reading begins."""
        os.close(self.writing)
        self.writing = -1
        self._pen.put(self.file.create)
        self._listen()

    def hurry(self) -> None:
        """The program has ended: what is still there is taken at once."""
        self._hurried = True
        if self._gathering:
            self._listen()

    def close(self) -> None:
        """Takes what is in the pipe, and closes everything. May be called twice."""
        for _ in range(2 * _PIPE // _READ):  # somebody who still writes shall not hold us up
            if self._reading < 0 or not self._take():
                break
        if self.writing >= 0:
            os.close(self.writing)
            self.writing = -1
        self._stop()

    def lines(self, count: int) -> list[bytes]:
        """The last lines, oldest first; what was not ended with a newline counts as one."""
        found = [line for line in _LINE_END.split(bytes(self._end[-_KEPT:])) if line.strip()]
        return found[-count:]

    def tail(self, count: int) -> list[bytes]:
        """The last lines; the one that says why the program failed goes first if it came before them."""
        return with_decisive_line(self.lines(count), find_decisive_line(bytes(self._end)))

    def since(self, offset: int) -> tuple[bytes, int]:
        """What came after so many bytes, as far as it is kept, and up to the last line's end; how many that were."""
        news = bytes(self._end[-(self._taken - offset) :]) if self._taken > offset else b""
        whole = news[: max(news.rfind(b"\n"), news.rfind(b"\r")) + 1]
        return whole, self._taken - len(news) + len(whole)

    def last_line(self) -> str:
        """The last line, cut."""
        found = [line for line in _LINE_END.split(bytes(self._end[-4096:])) if line.strip()]
        return found[-1].decode(errors="replace")[:LAST_LINE] if found else ""

    def _listen(self) -> None:
        self._cancel()
        if self._reading >= 0:
            asyncio.get_running_loop().add_reader(self._reading, self._read)

    def _read(self) -> None:
        size = self._take()
        if size == 0:
            self._stop()
        elif self._pen.backlog > _UNWRITTEN:  # the program has to wait for the disk, as it would without us
            asyncio.get_running_loop().remove_reader(self._reading)
            self._pen.notify(_UNWRITTEN // 2, self._listen)
        elif size is not None and size >= self._half:
            self._grow()
        elif size is not None and size < _MUCH and not self._hurried:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._reading)
            self._gathering = loop.call_later(_GATHER, self._listen)

    def _grow(self) -> None:
        if not self._grown:
            self._grown = True
            with contextlib.suppress(OSError):  # beyond the user's share of pipe memory
                self._half = fcntl.fcntl(self._reading, fcntl.F_SETPIPE_SZ, _PIPE) // 2

    def _cancel(self) -> None:
        if self._gathering:
            self._gathering.cancel()
            self._gathering = None

    def _take(self) -> int | None:
        """Takes one piece; answers its size: 0 at the end, None when there is nothing at the moment."""
        try:
            data = os.read(self._reading, _READ)
        except BlockingIOError:
            return None
        if data:
            self._pass_on(self._mask(data))
        return len(data)

    def _pass_on(self, data: bytes) -> None:
        self._pen.put(partial(self.file.write, data), len(data))
        self._keep(data)
        if self._look:
            self._look(data)
        self._came()

    def _mask(self, data: bytes) -> bytes:
        if self._masked is None:
            return data
        data = self._masked.feed(data)
        if self._releasing:
            self._releasing.cancel()
            self._releasing = None
        if self._masked.is_holding:
            self._releasing = asyncio.get_running_loop().call_later(_HOLD_SECONDS, self._release)
        return data

    def _release(self) -> None:
        """Pass on what was held back."""
        if self._releasing and self._masked:
            self._releasing.cancel()
            self._releasing = None
            self._pass_on(self._masked.release())

    def _keep(self, data: bytes) -> None:
        self._taken += len(data)
        self._end += data
        if len(self._end) > 2 * _SEARCHED:
            del self._end[:-_SEARCHED]

    def _stop(self) -> None:
        self._cancel()
        self._release()
        if self._reading >= 0:
            asyncio.get_running_loop().remove_reader(self._reading)
            os.close(self._reading)
            self._reading = -1
        self._pen.put(self.file.close)
        if not self.ended.is_set():
            self.ended.set()
            self._over()


class Output:
    """Both streams of one try.

    Attributes:
        first, last: times (`tony.clock.monotonic`) of the first and the last output; None before there is any.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        limit: int,
        pen: WriterThread,
        began: Callable[[], None],
        readers: LogReaders | None = None,
        exports: Exports | None = None,
        mask: SecretMask | None = None,
    ) -> None:
        """Makes the pipes.

        Args:
            folder: of the logs.
            name: of the try's files, without their endings.
            limit: bytes that each stream may keep on disk.
            pen: writes the files.
            began: is called once, when there is output.
            readers: are told of what there is to read.
            exports: looks for what the program hands on.
            mask: of the secrets that the program knows.
        """
        self.first: float | None = None
        self.last: float | None = None
        self._began = began
        self._latest = 0
        self._pen = pen
        self._late = 0
        self._readers = readers
        self._exports = exports
        self._mask = mask
        self._books: list[Book] = []
        self.out = self._stream(folder, f"{name}.out", limit, 0)
        self.err = self._stream(folder, f"{name}.err", limit, 1)

    def _stream(self, folder: Path, name: str, limit: int, number: int) -> Stream:
        file = BoundedLogFile(folder / name, limit)
        self._books.append(Book(STREAMS[number], name, file))
        look = self._exports.reader().feed if self._exports else None
        return Stream(file, self._pen, lambda: self._came(number), lambda: self._over(number), look, self._mask)

    def begin(self) -> None:
        """The program runs."""
        self.out.begin()
        self.err.begin()
        if self._readers:
            for book in self._books:
                self._readers.opened(book)

    async def wait_ended(self, timeout: float) -> None:
        """Waits until both streams have come to their end, `timeout` seconds at most, closes and writes them.

        A disk has a minute to take what is left.
        """
        self.out.hurry()
        self.err.hurry()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self.out.ended.wait()
                await self.err.ended.wait()
        self.close()
        if not await self._pen.wait_written(_SLOWEST_DISK):
            self._late = self._pen.backlog

    def close(self) -> None:
        """Takes what is there, and closes everything. May be called twice."""
        self.out.close()
        self.err.close()

    def tail(self) -> tuple[str, ...]:
        """The last lines of stderr, of stdout if there are none."""
        lines = self.err.tail(TAIL_LINES) or self.out.tail(TAIL_LINES)
        return tuple(line[:TAIL_BYTES].decode(errors="replace") for line in lines)

    def last_line(self) -> str:
        """The last line of whichever stream spoke last."""
        return (self.err if self._latest else self.out).last_line()

    def describe_loss(self) -> str:
        """What of the output is not on disk, one phrase; empty if everything is."""
        lost = self.out.file.lost + self.err.file.lost
        trouble = self.out.file.trouble or self.err.file.trouble
        if self._late:
            lost += self._late
            trouble = trouble or f"the disk did not take them within {_SLOWEST_DISK:g} s"
        return f"{lost} bytes of its output were lost: {trouble}" if lost else ""

    def _came(self, stream: int) -> None:
        self._latest = stream
        self.last = clock.monotonic()
        if self.first is None:
            self.first = self.last
            self._began()
        if self._readers:
            self._readers.came(self._books[stream])

    def _over(self, stream: int) -> None:
        if self._readers:
            self._readers.over(self._books[stream])
