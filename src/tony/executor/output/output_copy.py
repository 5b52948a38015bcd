"""Copies programs' output to the executor's own standard output and error, where tools of the scheduler show it.

It reads the log files like any other reader: no copy is in memory, and neither the program nor its logs wait for a
slow receiver. What was rotated away before it was copied is left out, and a line says how much.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from tony.executor.output.log_serving import LogReaders
from tony.executor.output.writer_thread import WriterThread
from tony.units import format_bytes

_PIECE_BYTES = 1 << 18


class OutputCopy:
    """Copies all output of one executor.

    Args:
        readers: has the output.
        descriptors: where to copy each stream.
        end_message: as of `ContainerPart`.
    """

    def __init__(
        self, readers: LogReaders, writer: WriterThread, descriptors: Mapping[str, int], end_message: str = ""
    ) -> None:
        self._readers = readers
        self._writer = writer
        self._descriptors = descriptors
        self._end_message = Path(end_message) if end_message else None
        self._tasks: list[asyncio.Task[None]] = []
        self._is_closing = False

    def start(self) -> None:
        """Copy from now on what programs print."""
        for stream, descriptor in self._descriptors.items():
            with contextlib.suppress(OSError):  # it is closed
                os.set_blocking(descriptor, False)
                self._tasks.append(asyncio.get_running_loop().create_task(self._copy(stream, descriptor)))

    async def finish(self, timeout: float) -> None:
        """Copy the rest, within `timeout` seconds. No program is running by then."""
        self._is_closing = True
        self._readers.notify()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout)
        for task in self._tasks:
            task.cancel()

    async def _copy(self, stream: str, descriptor: int) -> None:
        with contextlib.suppress(OSError):  # the receiver has gone
            place = offset = 0
            while True:
                changed, logs = self._readers.get_logs(stream)  # before reading: what is printed meanwhile is a change
                if place < len(logs):
                    log = logs[place]
                    piece = await self._writer.run(partial(log.file.read, offset, _PIECE_BYTES))
                    if piece.data:
                        await self._write(descriptor, _describe_gap(piece.offset - offset) + piece.data)
                        offset = piece.offset + len(piece.data)
                        continue
                    if log.is_finished and not changed.is_set():
                        place, offset = place + 1, 0
                        continue
                if not changed.is_set():
                    if self._is_closing:
                        return
                    await changed.wait()

    async def _write(self, descriptor: int, data: bytes) -> None:
        if self._end_message:
            with contextlib.suppress(OSError):
                self._end_message.write_bytes(b"\n")
            self._end_message = None
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(descriptor, rest) :]
            except BlockingIOError:
                await _wait_writable(descriptor)


def _describe_gap(size: int) -> bytes:
    return f"\n[tony: {format_bytes(size)} of output are missing here]\n".encode() if size else b""


async def _wait_writable(descriptor: int) -> None:
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_writer(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_writer(descriptor)
