"""Output is copied to the executor's own streams: complete, in order, and whatever the receiver does."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tony.executor.output.log_file import BoundedLogFile
from tony.executor.output.log_serving import LogReaders, StreamLog
from tony.executor.output.output_copy import OutputCopy
from tony.executor.output.writer_thread import WriterThread

#: More than fits into a pipe.
LARGE = b"".join(b"%07d\n" % number for number in range(40_000))
_TIMEOUT_SECONDS = 60.0


class Receiver:
    """What reads the executor's standard output."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        os.set_blocking(self.reading, False)

    async def receive(self, size: int) -> bytes:
        found = b""
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            while len(found) < size:
                try:
                    found += os.read(self.reading, 1 << 16)
                except BlockingIOError:
                    await asyncio.sleep(0.005)
        return found

    def close(self) -> None:
        os.close(self.reading)
        os.close(self.writing)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


class Program:
    """Prints to standard output."""

    def __init__(self, folder: Path, limit: int = 1 << 30) -> None:
        self.writer = WriterThread()
        self.readers = LogReaders(self.writer, lambda piece: None)
        self._folder, self._limit = folder, limit
        self._logs: list[StreamLog] = []

    def start(self) -> None:
        name = f"worker-0.s1.t{len(self._logs) + 1}.out"
        self._logs.append(StreamLog("out", name, BoundedLogFile(self._folder / name, self._limit)))
        self.readers.on_open(self._logs[-1])

    def print(self, data: bytes) -> None:
        file = self._logs[-1].file
        self.writer.put(lambda: file.write(data), len(data))
        self.readers.on_output(self._logs[-1])

    def end(self) -> None:
        self.readers.on_end(self._logs[-1])


async def test_all_output_of_all_attempts_is_copied(tmp_path: Path, receiver: Receiver) -> None:
    """Without a reader while the program runs, the rest comes at the end."""
    program, end_message = Program(tmp_path), tmp_path / "end"
    copy = OutputCopy(program.readers, program.writer, {"out": receiver.writing}, str(end_message))
    copy.start()
    program.start()
    assert not end_message.exists()
    program.print(b"first\n")
    assert await receiver.receive(6) == b"first\n"
    assert end_message.read_bytes() == b"\n"
    program.print(LARGE)
    program.end()
    program.start()
    program.print(b"last\n")
    program.end()
    _, received = await asyncio.gather(copy.finish(_TIMEOUT_SECONDS), receiver.receive(len(LARGE) + 5))
    assert received == LARGE + b"last\n"


async def test_what_was_rotated_away_is_left_out(tmp_path: Path, receiver: Receiver) -> None:
    program = Program(tmp_path, limit=2000)
    program.start()
    for start in range(0, len(LARGE), 800):
        program.print(LARGE[start : start + 800])
    program.end()
    copy = OutputCopy(program.readers, program.writer, {"out": receiver.writing})
    copy.start()
    await copy.finish(_TIMEOUT_SECONDS)
    received = await receiver.receive(1000)
    gap, _, rest = received.removeprefix(b"\n").partition(b"\n")
    assert gap.startswith(b"[tony: 31")
    assert gap.endswith(b" of output are missing here]")
    assert LARGE.endswith(rest)


async def test_a_receiver_that_does_not_read_or_has_gone_holds_up_nothing(tmp_path: Path, receiver: Receiver) -> None:
    program = Program(tmp_path)
    copy = OutputCopy(program.readers, program.writer, {"out": receiver.writing, "err": -1})
    copy.start()
    program.start()
    program.print(LARGE)
    program.end()
    await copy.finish(0.01)
    assert await program.writer.wait_written(_TIMEOUT_SECONDS)
