"""Labels the output of a task with several processes by their local ranks: `[1] loss 0.3`.

Each process writes to its own pipes. Whole lines of all of them go, labelled, into the pipes of the task's output.
"""

from __future__ import annotations

import asyncio
import os

from tony.executor.output.output_capture import LINE_END, Output, Stream
from tony.model.masking import MaskedStream, SecretMask

_READ_BYTES = 1 << 16
#: Bytes that may wait for room in the task's pipe; beyond, the processes' output stays in their pipes.
_MAX_PENDING_BYTES = 1 << 20
#: Seconds after which, and bytes beyond which, an unfinished line is passed on.
_PARTIAL_LINE_SECONDS = 0.25
_MAX_PARTIAL_LINE_BYTES = 1 << 16


class RankOutput:
    """Both output streams of several processes."""

    def __init__(self, output: Output, count: int) -> None:
        """Create the pipes, before `output_capture` starts to read.

        Raises:
            OSError: too many open files; no pipe stays open.
        """
        self._streams: list[_RankStream] = []
        try:
            for stream in (output.out, output.err):
                self._streams.append(_RankStream(stream))
                for rank in range(count):
                    self._streams[-1].sources.append(_Source(rank, stream.mask))
        except OSError:
            self.close()
            raise

    def get_write_ends(self, rank: int) -> tuple[int, int]:
        """Return the write ends of the pipes for standard output and standard error of one process."""
        out, err = self._streams
        return out.sources[rank].writing, err.sources[rank].writing

    def begin(self) -> None:
        """Close the executor's copies of the write ends, and read: all processes have been started."""
        for stream in self._streams:
            stream.begin()

    def close(self) -> None:
        """Close everything. May be called twice."""
        for stream in self._streams:
            stream.close()


class _Source:
    """One process's pipe, and the unfinished line that it is printing."""

    def __init__(self, rank: int, mask: SecretMask | None) -> None:
        self.label = b"[%d] " % rank
        # Masked before labelling: a label in the middle of a secret would hide it from the mask.
        self.masked = MaskedStream(mask or SecretMask())
        self.reading, self.writing = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.reading, False)
        self.partial = b""
        self.timer: asyncio.TimerHandle | None = None

    def close_writing(self) -> None:
        if self.writing >= 0:
            os.close(self.writing)
            self.writing = -1

    def cancel_timer(self) -> None:
        if self.timer:
            self.timer.cancel()
            self.timer = None


class _RankStream:
    """One stream of all processes."""

    def __init__(self, stream: Stream) -> None:
        self.sources: list[_Source] = []
        self._stream = stream
        self._writing = os.dup(stream.writing)
        self._pending = bytearray()
        self._unfinished: _Source | None = None  # its unfinished line was passed on last
        self._is_paused = False

    def begin(self) -> None:
        self._stream.is_labelled = True
        os.set_blocking(self._writing, False)
        for source in self.sources:
            source.close_writing()
            asyncio.get_running_loop().add_reader(source.reading, self._read, source)

    def close(self) -> None:
        loop = asyncio.get_running_loop()
        for source in self.sources:
            source.close_writing()
            source.cancel_timer()
            if source.reading >= 0:
                loop.remove_reader(source.reading)
                os.close(source.reading)
                source.reading = -1
        if self._writing >= 0:
            loop.remove_writer(self._writing)
            os.close(self._writing)
            self._writing = -1

    def _read(self, source: _Source) -> None:
        try:
            data = os.read(source.reading, _READ_BYTES)
        except BlockingIOError:
            return
        source.cancel_timer()
        text = source.partial + (source.masked.feed(data) if data else source.masked.release())
        if not data:
            asyncio.get_running_loop().remove_reader(source.reading)
            os.close(source.reading)
            source.reading = -1
            end = len(text)
        else:
            # A carriage return at the very end may be the first half of a line end.
            end = max(text.rfind(b"\n"), text.rfind(b"\r", 0, len(text) - 1)) + 1
            if len(text) - end > _MAX_PARTIAL_LINE_BYTES:
                end = len(text)
        source.partial = text[end:]
        if source.partial or (data and source.masked.is_holding):
            source.timer = asyncio.get_running_loop().call_later(_PARTIAL_LINE_SECONDS, self._release, source)
        self._forward(source, text[:end])

    def _release(self, source: _Source) -> None:
        text, source.partial = source.partial + source.masked.release(), b""
        source.timer = None
        self._forward(source, text)

    def _forward(self, source: _Source, text: bytes) -> None:
        if text:
            if self._unfinished is not source:
                self._pending += (b"\n" if self._unfinished else b"") + source.label
            ends = text.endswith((b"\n", b"\r"))
            labelled = LINE_END.sub(rb"\g<0>" + source.label, text)
            self._pending += labelled[: -len(source.label)] if ends else labelled
            self._unfinished = None if ends else source
        self._write()

    def _write(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._pending:
                del self._pending[: os.write(self._writing, self._pending)]
        except BlockingIOError:
            loop.add_writer(self._writing, self._write)
            if len(self._pending) > _MAX_PENDING_BYTES:
                self._pause()
            return
        loop.remove_writer(self._writing)
        self._resume()
        if all(source.reading < 0 and not source.partial for source in self.sources):
            os.close(self._writing)
            self._writing = -1

    def _pause(self) -> None:
        self._is_paused = True
        for source in self.sources:
            if source.reading >= 0:
                asyncio.get_running_loop().remove_reader(source.reading)

    def _resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            for source in self.sources:
                if source.reading >= 0:
                    asyncio.get_running_loop().add_reader(source.reading, self._read, source)
