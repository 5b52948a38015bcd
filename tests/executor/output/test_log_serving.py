"""A log reader gets every byte that is left, in order, and waits without polling."""

from __future__ import annotations

import asyncio
import base64
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tony.executor.output.log_file import BoundedLogFile
from tony.executor.output.log_serving import LogReaders, StreamLog
from tony.executor.output.writer_thread import WriterThread
from tony.model.ids import TaskId
from tony.protocol.output_messages import LOG_PIECE, DropLog, LogPiece, ReadLog, unpack_times

#: Seconds until something counts as never happening.
CEILING = 30.0


class Desk:
    """Readers of one executor, with tries that a test writes itself."""

    def __init__(self, folder: Path, limit: int = 1 << 20) -> None:
        self.folder = folder
        self.pen = WriterThread()
        self.answers: asyncio.Queue[LogPiece] = asyncio.Queue()
        self.readers = LogReaders(self.pen, self.answers.put_nowait)
        self.limit = limit

    def begin(self, try_: int = 1, stream: str = "out") -> StreamLog:
        name = f"worker-0.s1.t{try_}.{stream}"
        book = StreamLog(stream, name, BoundedLogFile(self.folder / name, self.limit))
        self.pen.put(book.file.create)
        self.readers.on_open(book)
        return book

    def write(self, book: StreamLog, data: bytes) -> None:
        """It prints, as an `Output` would tell it."""
        self.pen.put(lambda: book.file.write(data), len(data))
        self.readers.on_output(book)

    def end(self, book: StreamLog) -> None:
        self.pen.put(book.file.close)
        self.readers.on_end(book)

    def on_request(self, name: str = "", offset: int = 0, **more: Any) -> None:
        message = {"reader": 1, "task": TaskId("worker", 0), "stream": "out", "wait": True, **more}
        self.readers.on_request(ReadLog(name=name, offset=offset, **message))

    async def answer(self) -> LogPiece:
        async with asyncio.timeout(CEILING):
            return await self.answers.get()

    async def read(self, name: str = "", offset: int = 0, **more: Any) -> LogPiece:
        self.on_request(name, offset, **more)
        return await self.answer()

    async def settled(self) -> None:
        """Whatever the pen was given is done, and what it told is heard."""
        assert await self.pen.wait_written(CEILING)
        for _ in range(3):
            await asyncio.sleep(0)


def data_of(piece: LogPiece) -> bytes:
    return base64.b64decode(piece.data)


async def test_a_waiting_reader_is_answered_when_something_is_printed(tmp_path: Path) -> None:
    """Nothing comes before; then the very bytes, and the next request continues behind them."""
    desk = Desk(tmp_path)
    book = desk.begin()
    desk.on_request()
    await desk.settled()
    assert desk.answers.empty()
    desk.write(book, b"first\n")
    piece = await desk.answer()
    assert (piece.name, piece.start, piece.offset, data_of(piece)) == ("worker-0.s1.t1.out", 0, 0, b"first\n")
    desk.on_request(piece.name, 6)
    desk.write(book, b"second")
    assert data_of(await desk.answer()) == b"second"
    await desk.pen.stop(CEILING)


async def test_pieces_have_their_times(tmp_path: Path) -> None:
    """Of the bytes that they have: the first time may be that of a byte before."""
    desk = Desk(tmp_path)
    book = desk.begin()
    for at, data in enumerate((b"first\n", b"second\n")):
        desk.pen.put(partial(book.file.write, data, 1_780_000_000.0 + at))
    desk.readers.on_output(book)
    await desk.settled()
    piece = await desk.read(book.name, 3)
    assert data_of(piece) == b"st\nsecond\n"
    assert unpack_times(piece.times) == [(0, 178_000_000_000), (3, 178_000_000_100)]
    await desk.pen.stop(CEILING)


async def test_a_request_that_does_not_wait_is_answered_at_once(tmp_path: Path) -> None:
    """With what there is, or with nothing; also before there is any file."""
    desk = Desk(tmp_path)
    assert await desk.read(wait=False) == LogPiece(reader=1)
    book = desk.begin()
    desk.write(book, b"x" * 10)
    assert data_of(await desk.read(wait=False, most=4)) == b"xxxx"
    assert await desk.read(book.name, 10, wait=False) == LogPiece(reader=1)
    assert await desk.read(book.name, 10_000, wait=False) == LogPiece(reader=1)
    await desk.pen.stop(CEILING)


async def test_a_reader_continues_with_the_next_task_attempt(tmp_path: Path) -> None:
    """A file that can grow no more and is read leads to the next one, there already or not; only of its own stream."""
    desk = Desk(tmp_path)
    first, other = desk.begin(1), desk.begin(1, "err")
    desk.write(first, b"one")
    desk.write(other, b"not this")
    desk.end(first)
    assert data_of(await desk.read()) == b"one"
    desk.on_request(first.name, 3)
    await desk.settled()
    assert desk.answers.empty()
    second = desk.begin(2)
    desk.write(second, b"two")
    piece = await desk.answer()
    assert (piece.name, piece.offset, data_of(piece)) == (second.name, 0, b"two")
    # What an earlier executor printed is not here: the first file after it comes.
    piece = await desk.read("worker-0.s1.t1.out.of-another", 7)
    assert piece.name in (first.name, second.name)
    piece = await desk.read("worker-0.s0.t9.out", 7)
    assert (piece.name, piece.offset) == (first.name, 0)
    await desk.pen.stop(CEILING)


async def test_the_end_sends_the_rest_and_then_the_last_piece(tmp_path: Path) -> None:
    """A reader that is behind gets everything before the last piece; one that waits gets the last piece; then it
    ends."""
    desk = Desk(tmp_path)
    book = desk.begin()
    data = bytes(range(256)) * 1000
    desk.write(book, data)
    desk.end(book)
    desk.on_request(reader=2, stream="err")
    piece = await desk.read()
    finishing = asyncio.ensure_future(desk.readers.finish(CEILING, CEILING))
    assert await desk.answer() == LogPiece(reader=2, last=True)
    got = b""
    while not piece.last:
        assert len(data_of(piece)) <= LOG_PIECE
        got += data_of(piece)
        assert not finishing.done()
        piece = await desk.read(piece.name, len(got))
    assert got == data
    await asyncio.wait_for(finishing, CEILING)
    await desk.pen.stop(CEILING)


async def test_the_exit_does_not_wait_for_lost_readers(tmp_path: Path) -> None:
    """A reader that drops out, a connection that ends, and a limit for one that says nothing."""
    desk = Desk(tmp_path)
    book = desk.begin()
    desk.write(book, b"x")
    await desk.read()
    finishing = asyncio.ensure_future(desk.readers.finish(CEILING, CEILING))
    await asyncio.sleep(0)
    desk.readers.drop(DropLog(reader=1))
    await asyncio.wait_for(finishing, CEILING)
    await desk.read()
    finishing = asyncio.ensure_future(desk.readers.finish(CEILING, CEILING))
    await asyncio.sleep(0)
    desk.readers.forget()
    await asyncio.wait_for(finishing, CEILING)
    await desk.read()
    await asyncio.wait_for(desk.readers.finish(0.01, CEILING), CEILING)
    await desk.read()
    await asyncio.wait_for(desk.readers.finish(CEILING, 0.01), CEILING)
    await desk.pen.stop(CEILING)


async def test_the_end_of_a_log_is_sent_once(tmp_path: Path) -> None:
    """Also if it is in two files; the exit does not wait for a further request."""
    desk = Desk(tmp_path, limit=40)
    book = desk.begin()
    for at in range(10):
        desk.pen.put(partial(book.file.write, b"line %03d\n" % at, 1_780_000_000.0 + at))
    desk.end(book)
    piece = await desk.read(book.name, tail=True, most=30)
    whole = b"".join(b"line %03d\n" % number for number in range(10))
    assert (piece.name, piece.offset, data_of(piece)) == (book.name, 60, whole[60:])
    assert [moment for _, moment in unpack_times(piece.times)][-1] == 178_000_000_900
    assert whole.endswith(data_of(await desk.read(book.name, tail=True)))
    assert await desk.read("worker-0.s1.t2.out", tail=True) == LogPiece(reader=1)
    await asyncio.wait_for(desk.readers.finish(CEILING, CEILING), CEILING)
    await desk.pen.stop(CEILING)


async def test_number_of_readers_is_bounded(tmp_path: Path) -> None:
    """A reader beyond the limit replaces the oldest; an invalid request is ignored."""
    desk = Desk(tmp_path)
    for number in range(1500):
        desk.on_request(reader=number)
    desk.on_request(reader=-1, stream="both")
    book = desk.begin()
    desk.write(book, b"x")
    answers = [await desk.answer() for _ in range(1000)]
    await desk.settled()
    assert desk.answers.empty()
    assert {piece.reader for piece in answers} == set(range(500, 1500))
    await desk.pen.stop(CEILING)


@settings(max_examples=60)
@given(
    writes=st.lists(st.binary(min_size=1, max_size=120) | st.just(b"line\n"), max_size=25),
    limit=st.integers(2, 300),
    most=st.integers(1, 90),
    pause=st.integers(1, 4),
)
def test_a_reader_gets_every_byte_at_most_once_despite_rotation(
    tmp_path_factory: pytest.TempPathFactory, writes: list[bytes], limit: int, most: int, pause: int
) -> None:
    """Pieces never overlap and never go back; a slow reader gets a part of what was written, with its end."""

    async def story() -> None:
        desk = Desk(tmp_path_factory.mktemp("logs"), limit)
        book = desk.begin()
        position = (0, 0)
        got = bytearray()
        gaps, newest = 0, b""
        for number, data in enumerate([*writes, b""]):
            if data:
                desk.write(book, data)
            last = number == len(writes)
            while last or number % pause == 0:
                piece = await desk.read(book.name, position[1], wait=False, most=most)
                if not piece.data:
                    break
                assert piece.offset >= position[1]
                assert piece.start <= piece.offset
                gaps += piece.offset > position[1]
                newest = data_of(piece)
                got += newest
                position = (piece.start, piece.offset + len(data_of(piece)))
        everything = b"".join(writes)
        if not gaps and len(everything) <= limit // 2:
            assert bytes(got) == everything
        rest = iter(everything)
        assert all(byte in rest for byte in got)
        assert everything.endswith(newest)
        await desk.pen.stop(CEILING)

    asyncio.run(story())


async def test_a_file_that_was_removed_is_an_empty_one(tmp_path: Path) -> None:
    """A deleted log file reads as empty, not as content that was never there."""
    desk = Desk(tmp_path)
    book = desk.begin()
    desk.write(book, b"gone")
    await desk.settled()
    (tmp_path / book.name).unlink()
    assert await desk.read(wait=False) == LogPiece(reader=1)
    await desk.pen.stop(CEILING)
