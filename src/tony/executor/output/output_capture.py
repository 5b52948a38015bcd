"""Captures a program's output: from its pipes into files of bounded size, keeping the last lines in memory.

Everything is processed in large chunks, never line by line. Output after a silence is read at once; small pieces that
follow are gathered for a few milliseconds, so that a million short lines cost a few hundred reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tony import clock
from tony.diagnosis.evidence_selection import find_last_traceback, select_evidence
from tony.diagnosis.line_rules import LineRules
from tony.diagnosis.output_scanner import OutputScanner
from tony.executor.output.arrival_times import ArrivalTimes
from tony.executor.output.log_file import BoundedLogFile
from tony.executor.output.log_serving import LogReaders, StreamLog
from tony.executor.output.writer_thread import WriterThread
from tony.executor.program.printed_values import Exports
from tony.model.diagnosis import EvidenceLine
from tony.model.log_name import STREAMS
from tony.model.masking import MaskedStream, SecretMask
from tony.model.own_rule import OwnRule

log = logging.getLogger(__name__)

#: Size of a pipe once a program has filled one: 1 MiB, the default of pipe-max-size. Not from the beginning: a user's
#: share of pipe memory is 64 MiB (pipe-user-pages-soft), and beyond it pipes have 8 KiB.
_PIPE_BYTES = 1 << 20
_READ_BYTES = 1 << 18
#: Fewer bytes (or less than half the pipe, where it is small) are a small piece.
_SMALL_PIECE_BYTES = 1 << 16
#: Seconds for which output is gathered after a small piece.
_GATHER_SECONDS = 0.005
#: Seconds after which a possible beginning of a secret, or of a line, is passed on although its rest has not arrived.
_HOLD_SECONDS = 0.25
#: Bytes beyond which an unfinished line is passed on at once.
_MAX_PARTIAL_LINE_BYTES = 1 << 16
#: Bytes that may wait for the disk; beyond, the program's output stays in its pipe.
_MAX_UNWRITTEN_BYTES = 8 << 20
#: Seconds after a program's exit that its last output may take to reach the disk.
_DISK_TIMEOUT_SECONDS = 60.0
#: Bytes at the end of a stream that are kept for `tail`.
_TAIL_BYTES = 1 << 16
#: Bytes at the end of a stream that are searched, once the program has exited, for the line that says why it failed.
#: Searching all output as it flows would cost more than everything else that is done with it.
_SEARCHED_BYTES = 1 << 19
#: Lines of a tail, and bytes of each: as much as LinkedIn TonY put into its diagnostics, bounded for the wire.
TAIL_LINES = 20
TAIL_BYTES = 2000
LAST_LINE = 200
#: tqdm and the like end their lines with a carriage return.
LINE_END = re.compile(rb"\r\n|\n|\r")
#: The end of a Python traceback: a class, perhaps with its module, and its message. The output of several processes is
#: labelled.
_EXCEPTION = re.compile(rb"(?:\[\d+\] )?(?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception)(?:: [^\r\n]*)?\r?(?=\n|$)")
_ENDINGS = (b"Error", b"Exception")
#: Occurrences checked, from the end, in output that is full of these words.
_MAX_PLACES = 200


class Pipe:
    """The pipe of one process, from which its output goes into a stream.

    Attributes:
        label: put in front of each line; empty for none, then lines need not be whole.
    """

    def __init__(self, stream: Stream, mask: SecretMask | None, label: bytes) -> None:
        self.label = label
        self._stream = stream
        self._reading, self.writing = os.pipe2(os.O_CLOEXEC)
        self._half = fcntl.fcntl(self._reading, fcntl.F_GETPIPE_SZ) // 2
        os.set_blocking(self._reading, False)
        # Masked before labelling: a label in the middle of a secret would hide it from the mask.
        self._masked = MaskedStream(mask) if mask else None
        self._partial = b""
        self._holding: asyncio.TimerHandle | None = None
        self._gathering: asyncio.TimerHandle | None = None
        self._is_grown = self._is_hurried = False

    @property
    def is_closed(self) -> bool:
        return self._reading < 0

    def begin(self) -> None:
        """Close the write end, which the process has now, and start reading."""
        self._close_writing()
        self._listen()

    def hurry(self) -> None:
        """Read the rest without gathering: the program has exited."""
        self._is_hurried = True
        if self._gathering:
            self._listen()

    def close(self) -> None:
        """Read the rest of the pipe and close it. May be called twice."""
        for _ in range(2 * _PIPE_BYTES // _READ_BYTES):  # bounded, in case a process still writes
            if self._reading < 0 or not self._read_piece():
                break
        self._close_writing()
        self._stop()

    def discard(self) -> None:
        """Close both ends."""
        self._close_writing()
        os.close(self._reading)
        self._reading = -1

    def _close_writing(self) -> None:
        if self.writing >= 0:
            os.close(self.writing)
            self.writing = -1

    def _listen(self) -> None:
        self._cancel_gathering()
        if self._reading >= 0:
            asyncio.get_running_loop().add_reader(self._reading, self._read)

    def _read(self) -> None:
        size, loop = self._read_piece(), asyncio.get_running_loop()
        if size == 0:
            self._stop()
        elif self._stream.writer.backlog > _MAX_UNWRITTEN_BYTES:
            loop.remove_reader(self._reading)
            self._stream.writer.call_when_written(self._listen)
        elif size is not None and size >= self._half:
            self._grow()
        elif size is not None and size < _SMALL_PIECE_BYTES and not self._is_hurried:
            loop.remove_reader(self._reading)
            self._gathering = loop.call_later(_GATHER_SECONDS, self._listen)

    def _grow(self) -> None:
        if not self._is_grown:
            self._is_grown = True
            with contextlib.suppress(OSError):  # beyond the user's share of pipe memory
                self._half = fcntl.fcntl(self._reading, fcntl.F_SETPIPE_SZ, _PIPE_BYTES) // 2

    def _cancel_gathering(self) -> None:
        if self._gathering:
            self._gathering.cancel()
            self._gathering = None

    def _read_piece(self) -> int | None:
        """Read one piece; return its size: 0 at the end, None if there is nothing at the moment."""
        try:
            data = os.read(self._reading, _READ_BYTES)
        except BlockingIOError:
            return None
        if data:
            self._pass_on(self._partial + (self._masked.feed(data) if self._masked else data))
        return len(data)

    def _pass_on(self, text: bytes) -> None:
        """Pass on what is neither the possible beginning of a secret nor, with labels, of a line."""
        end = len(text)
        if self.label:
            # A carriage return at the very end may be the first half of a line end.
            whole = max(text.rfind(b"\n"), text.rfind(b"\r", 0, end - 1)) + 1
            end = whole if end - whole <= _MAX_PARTIAL_LINE_BYTES else end
        self._partial = text[end:]
        if self._holding:
            self._holding.cancel()
            self._holding = None
        if self._partial or (self._masked and self._masked.is_holding):
            self._holding = asyncio.get_running_loop().call_later(_HOLD_SECONDS, self._release)
        self._stream.forward(self, text[:end])

    def _release(self) -> None:
        """Pass on what was held back."""
        if self._holding:
            self._holding.cancel()
            self._holding = None
            text, self._partial = self._partial + (self._masked.release() if self._masked else b""), b""
            self._stream.forward(self, text)

    def _stop(self) -> None:
        self._cancel_gathering()
        self._release()
        if self._reading >= 0:
            asyncio.get_running_loop().remove_reader(self._reading)
            os.close(self._reading)
            self._reading = -1
        self._stream.on_pipe_closed()


class Stream:
    """One of a program's output streams, of one or several processes.

    With several, each line begins with the local rank of its process: `[1] loss 0.3`.
    """

    def __init__(
        self,
        file: BoundedLogFile,
        writer: WriterThread,
        on_output: Callable[[], None],
        on_end: Callable[[], None] = lambda: None,
        on_data: Callable[[bytes], None] | None = None,
        mask: SecretMask | None = None,
        processes: int = 1,
        name: str = "",
        rules: LineRules | None = None,
    ) -> None:
        """Create the pipes. Pass their write ends to the program, then call `begin`.

        Args:
            on_end: called when there will be no more.
            on_data: called with all output.
            mask: masks secrets in the output before anything else is done with it; None: there are none.
            name: `out` or `err`.
            rules: for the lines that say why the program failed; None: those of tony alone.

        Raises:
            OSError: too many open files; no pipe stays open.
        """
        self.file = file
        self.writer = writer
        self._on_output = on_output
        self._on_end = on_end
        self._on_data = on_data
        self.scanner = OutputScanner(name, rules)
        self._recent = bytearray()
        self._total_bytes = 0
        self.arrivals = ArrivalTimes()
        self._unfinished: Pipe | None = None  # its unfinished line was passed on last
        self.ended = asyncio.Event()
        self.is_labelled = processes > 1
        self.pipes: list[Pipe] = []
        try:
            for rank in range(processes):
                self.pipes.append(Pipe(self, mask, b"[%d] " % rank if self.is_labelled else b""))
        except OSError:
            self.discard()
            raise

    def discard(self) -> None:
        """Close the pipes without reading them: no process has got one."""
        for pipe in self.pipes:
            pipe.discard()

    def begin(self) -> None:
        """Close the write ends, which the program has now, and start reading."""
        self.writer.put(self.file.create)
        for pipe in self.pipes:
            pipe.begin()

    def hurry(self) -> None:
        """Read the rest without gathering: the program has exited."""
        for pipe in self.pipes:
            pipe.hurry()

    def close(self) -> None:
        """Read the rest of the pipes and close everything. May be called twice."""
        for pipe in self.pipes:
            pipe.close()

    def read_lines(self, count: int) -> list[bytes]:
        """Return the last lines, oldest first, including an unfinished one."""
        found = [line for line in LINE_END.split(bytes(self._recent[-_TAIL_BYTES:])) if line.strip()]
        return found[-count:]

    def read_tail(self, count: int) -> list[bytes]:
        """Return the last lines; an earlier line that says why the program failed is put first."""
        return with_decisive_line(self.read_lines(count), find_decisive_line(bytes(self._recent)))

    def read_since(self, offset: int) -> tuple[bytes, int]:
        """Return the kept output after an offset, up to the last line end, and the offset of its end."""
        news = bytes(self._recent[-(self._total_bytes - offset) :]) if self._total_bytes > offset else b""
        whole = news[: max(news.rfind(b"\n"), news.rfind(b"\r")) + 1]
        return whole, self._total_bytes - len(news) + len(whole)

    def read_last_line(self) -> str:
        """Return the last line, truncated."""
        found = [line for line in LINE_END.split(bytes(self._recent[-4096:])) if line.strip()]
        return found[-1].decode(errors="replace")[:LAST_LINE] if found else ""

    def forward(self, pipe: Pipe, data: bytes) -> None:
        """Log output of one process, and keep its end for the reports of a failure."""
        if pipe.label and data:
            data = self._add_labels(pipe, data)
        self.writer.put(partial(self.file.write, data, clock.wall()), len(data))
        self._keep(data)
        self.scanner.feed(data, clock.monotonic())
        if self._on_data:
            self._on_data(data)
        self._on_output()

    def _keep(self, data: bytes) -> None:
        self._total_bytes += len(data)
        self.arrivals.note_arrival(clock.monotonic(), self._total_bytes)
        self._recent += data
        if len(self._recent) > 2 * _SEARCHED_BYTES:
            del self._recent[:-_SEARCHED_BYTES]

    def on_pipe_closed(self) -> None:
        """Note that a process prints no more."""
        if all(pipe.is_closed for pipe in self.pipes):
            self.writer.put(self.file.close)
            if not self.ended.is_set():
                self.ended.set()
                self._on_end()

    def _add_labels(self, pipe: Pipe, text: bytes) -> bytes:
        is_whole = text.endswith((b"\n", b"\r"))
        labelled = LINE_END.sub(rb"\g<0>" + pipe.label, text)
        labelled = labelled[: -len(pipe.label)] if is_whole else labelled
        if self._unfinished is not pipe:
            labelled = (b"\n" if self._unfinished else b"") + pipe.label + labelled
        self._unfinished = None if is_whole else pipe
        return labelled


class Output:
    """Both streams of one task attempt.

    Attributes:
        first, last: times (`tony.clock.monotonic`) of the first and the last output; None before there is any.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        limit: int,
        writer: WriterThread,
        on_first_output: Callable[[], None],
        readers: LogReaders | None = None,
        exports: Exports | None = None,
        mask: SecretMask | None = None,
        processes: int = 1,
        rules: Sequence[OwnRule] = (),
    ) -> None:
        """Create the pipes.

        Args:
            rules: of the job and its site.
            name: of the attempt's files, without their endings.
            limit: bytes that each stream may keep on disk.
            on_first_output: called once, at the first output.

        Raises:
            OSError: too many open files; no pipe stays open.
        """
        self.first: float | None = None
        self.last: float | None = None
        self._on_first_output = on_first_output
        self._latest = 0
        self._writer = writer
        self._unwritten = 0
        self._readers = readers
        self._exports = exports
        self._mask = mask
        self._rules = LineRules(rules, clock.monotonic)
        self._logs: list[StreamLog] = []
        self.out = self._create_stream(folder, f"{name}.out", limit, 0, processes)
        try:
            self.err = self._create_stream(folder, f"{name}.err", limit, 1, processes)
        except OSError:
            self.out.discard()
            raise

    def get_write_ends(self, process: int = 0) -> tuple[int, int]:
        """Return the write ends of the pipes for standard output and standard error of one process."""
        return self.out.pipes[process].writing, self.err.pipes[process].writing

    def _create_stream(self, folder: Path, name: str, limit: int, number: int, processes: int) -> Stream:
        file = BoundedLogFile(folder / name, limit)
        self._logs.append(StreamLog(STREAMS[number], name, file))
        on_data = self._exports.create_reader().feed if self._exports else None
        on_output, on_end = partial(self._on_output, number), partial(self._on_end, number)
        stream = STREAMS[number]
        return Stream(file, self._writer, on_output, on_end, on_data, self._mask, processes, stream, self._rules)

    def begin(self) -> None:
        self.out.begin()
        self.err.begin()
        if self._readers:
            for log in self._logs:
                self._readers.on_open(log)

    async def wait_ended(self, timeout: float) -> None:
        """Wait until both streams have ended, at most `timeout` seconds, then close and write them.

        The disk has a minute for the rest.
        """
        self.out.hurry()
        self.err.hurry()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self.out.ended.wait()
                await self.err.ended.wait()
        self.close()
        if not await self._writer.wait_written(_DISK_TIMEOUT_SECONDS):
            self._unwritten = self._writer.backlog

    def close(self) -> None:
        """Read the rest and close everything. May be called twice."""
        self.out.close()
        self.err.close()

    def read_tail(self) -> tuple[str, ...]:
        """Return the last lines of stderr, or of stdout if it has none."""
        lines = self.err.read_tail(TAIL_LINES) or self.out.read_tail(TAIL_LINES)
        return tuple(line[:TAIL_BYTES].decode(errors="replace") for line in lines)

    def find_evidence(self, ended: float, *, has_exited: bool) -> tuple[EvidenceLine, ...]:
        """Return the lines that say why the program, which ended at `ended`, failed, the decisive one first.

        Args:
            has_exited: it exited by itself, with an exit code.
        """
        scanners = self._end_scanners(ended)
        if self._rules.dropped:
            log.warning("took too long for this output, and were no longer used: %s", ", ".join(self._rules.dropped))
        return select_evidence(scanners, ended, has_exited=has_exited)

    def find_last_traceback(self, ended: float) -> tuple[EvidenceLine, ...]:
        """Return the exception with which the output ended, though the program, which ended at `ended`, succeeded."""
        return find_last_traceback(self._end_scanners(ended), ended)

    def _end_scanners(self, ended: float) -> Sequence[OutputScanner]:
        scanners = [stream.scanner for stream in (self.out, self.err)]
        for scanner in scanners:
            scanner.end(ended)
        return scanners

    def read_last_line(self) -> str:
        """Return the last line of the stream that was written last."""
        return (self.err if self._latest else self.out).read_last_line()

    def describe_loss(self) -> str:
        """Return a phrase on output that is not on disk; empty if all is."""
        lost = self.out.file.lost + self.err.file.lost
        trouble = self.out.file.trouble or self.err.file.trouble
        if self._unwritten:
            lost += self._unwritten
            trouble = trouble or f"not written to disk within {_DISK_TIMEOUT_SECONDS:g} s"
        return f"{lost} bytes of its output were lost: {trouble}" if lost else ""

    def _on_output(self, stream: int) -> None:
        self._latest = stream
        self.last = clock.monotonic()
        if self.first is None:
            self.first = self.last
            self._on_first_output()
        if self._readers:
            self._readers.on_output(self._logs[stream])

    def _on_end(self, stream: int) -> None:
        if self._readers:
            self._readers.on_end(self._logs[stream])


def find_decisive_line(data: bytes) -> bytes:
    """Return the last line that looks like the end of a traceback; empty if there is none."""
    places = {word: data.rfind(word) for word in _ENDINGS}
    for _ in range(_MAX_PLACES):
        place = max(places.values(), default=-1)
        if place < 0:
            return b""
        start = data.rfind(b"\n", 0, place) + 1
        found = _EXCEPTION.match(data, start)
        if found:
            return found[0].rstrip(b"\r")
        places = {word: data.rfind(word, 0, start) if at >= start else at for word, at in places.items()}
    return b""


def with_decisive_line(tail: list[bytes], decisive: bytes) -> list[bytes]:
    """Return the last lines, with the decisive one put first if it is not among them; never more lines than before."""
    if not decisive or decisive in tail or len(tail) < 3:
        return tail
    return [decisive, b"...", *tail[2:]]
