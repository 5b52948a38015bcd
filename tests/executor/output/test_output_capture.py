"""Output: on disk within its limit, with the newest kept, whatever the disk says."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.facts import mentions
from tests.support.waiting import wait_until
from tony.executor.output.log_file import BoundedLogFile
from tony.executor.output.output_capture import TAIL_LINES, Output, Stream, find_decisive_line
from tony.executor.output.writer_thread import WriterThread
from tony.model.masking import SecretMask


def on_disk(path: Path) -> bytes:
    """Both halves, older first."""
    older = path.with_name(f"{path.name}.1")
    return (older.read_bytes() if older.exists() else b"") + path.read_bytes()


def test_rotation_keeps_the_newest_within_the_limit(tmp_path: Path) -> None:
    """Files change at line ends; what is kept is the end of what was written."""
    path = tmp_path / "log"
    file = BoundedLogFile(path, 1000)
    written = b"".join(b"line %04d\n" % number for number in range(1000))
    for start in range(0, len(written), 333):
        file.write(written[start : start + 333])
    file.close()
    kept = on_disk(path)
    assert len(kept) <= 1000
    assert len(kept) >= 500
    assert written.endswith(kept)
    assert kept.startswith(b"line")
    assert path.read_bytes().startswith(b"line")
    assert file.lost == 0


@settings(max_examples=100)
@given(st.lists(st.binary(max_size=300) | st.just(b"\n"), max_size=30), st.integers(2, 400))
def test_a_rotated_log_keeps_its_end(tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], limit: int) -> None:
    """Never more than the limit, always the end of the output, never nothing."""
    path = tmp_path_factory.mktemp("log") / "log"
    file = BoundedLogFile(path, limit)
    file.create()
    for piece in pieces:
        file.write(piece)
    file.close()
    kept = on_disk(path)
    written = b"".join(pieces)
    assert len(kept) <= limit
    assert written.endswith(kept)
    assert len(kept) >= min(len(written), 1)


def test_no_room_at_all_is_no_file_of_any_size(tmp_path: Path) -> None:
    """A limit of zero keeps nothing."""
    file = BoundedLogFile(tmp_path / "log", 0)
    file.create()
    file.write(b"x" * 1000)
    file.close()
    assert on_disk(tmp_path / "log") == b""


def test_full_disk_costs_output_and_nothing_else(tmp_path: Path) -> None:
    """Every write fails as on a full disk; it is counted and said."""
    path = tmp_path / "log"
    path.symlink_to("/dev/full")
    file = BoundedLogFile(path, 1000)
    file.write(b"x" * 100)
    file.write(b"x" * 50)
    file.close()
    assert (file.lost, file.trouble) == (150, "No space left on device")


def test_a_removed_folder_costs_only_output(tmp_path: Path) -> None:
    """A full file that cannot be rotated takes no more, and blocks no process."""
    folder = tmp_path / "logs"
    folder.mkdir()
    file = BoundedLogFile(folder / "log", 100)
    file.write(b"x" * 50)
    shutil.rmtree(folder)
    signal.alarm(10)  # before this was handled, the next line never came back
    try:
        file.write(b"y" * 60)
    finally:
        signal.alarm(0)
    assert file.lost == 60
    assert "No such file" in file.trouble
    folder.mkdir()
    file.write(b"z" * 10)
    file.close()
    assert (folder / "log").read_bytes() == b"z" * 10


def test_missing_folder_costs_output_and_nothing_else(tmp_path: Path) -> None:
    """Once the folder is back, what is written then is kept."""
    path = tmp_path / "gone" / "log"
    file = BoundedLogFile(path, 1000)
    file.write(b"lost")
    path.parent.mkdir()
    file.write(b"kept")
    file.close()
    assert path.read_bytes() == b"kept"
    assert (file.lost, file.trouble) == (4, "No such file or directory")


async def printed(folder: Path, out: bytes, err: bytes = b"", limit: int = 1 << 20) -> tuple[Output, int]:
    """An Output that a program has written to; and how often it said "first"."""
    firsts = 0

    def first() -> None:
        nonlocal firsts
        firsts += 1

    output = Output(folder, "worker-0.s1.t1", limit, WriterThread(), first)
    writers = [os.dup(output.get_write_ends()[0]), os.dup(output.get_write_ends()[1])]
    output.begin()
    for writer, data in zip(writers, (out, err), strict=True):
        await asyncio.to_thread(write_all, writer, data)
    await output.wait_ended(20.0)
    return output, firsts


def write_all(descriptor: int, data: bytes) -> None:
    """Writes into a pipe as a program would, and closes it."""
    while data:
        data = data[os.write(descriptor, data) :]
    os.close(descriptor)


def test_streams_go_to_their_files(tmp_path: Path) -> None:
    """Megabytes arrive complete; the first output is told once."""
    big = bytes(range(256)) * 20000
    output, firsts = asyncio.run(printed(tmp_path, big, b"oops\n", 1 << 24))
    assert (tmp_path / "worker-0.s1.t1.out").read_bytes() == big
    assert (tmp_path / "worker-0.s1.t1.err").read_bytes() == b"oops\n"
    assert firsts == 1
    assert output.last is not None
    assert output.read_tail() == ("oops",)


def test_tail_is_stderr_or_else_stdout_and_bounded(tmp_path: Path) -> None:
    """Twenty lines of 2000 bytes at most; bytes that are no text are replaced; progress bars are lines."""
    lines = b"".join(b"line %d\n" % number for number in range(100)) + b"x" * 5000 + b"\n\xff\xfe\r50%\r100%"
    output, _ = asyncio.run(printed(tmp_path, lines))
    tail = output.read_tail()
    assert len(tail) == 20
    assert tail[0] == "line 84"
    assert tail[-4:] == ("x" * 2000, "\ufffd\ufffd", "50%", "100%")
    assert output.read_last_line() == "100%"


def test_silence_has_no_tail(tmp_path: Path) -> None:
    """A program that says nothing has empty files and no last line."""
    output, firsts = asyncio.run(printed(tmp_path, b""))
    assert (output.read_tail(), output.read_last_line(), output.last, firsts) == ((), "", None, 0)
    assert (tmp_path / "worker-0.s1.t1.out").read_bytes() == b""


def test_last_line_is_cut(tmp_path: Path) -> None:
    """What goes into every heartbeat is short."""
    output, _ = asyncio.run(printed(tmp_path, b"y" * 10000))
    assert output.read_last_line() == "y" * 200


def test_loss_is_described(tmp_path: Path) -> None:
    (tmp_path / "worker-0.s1.t1.out").symlink_to("/dev/full")
    output, _ = asyncio.run(printed(tmp_path, b"12345"))
    assert mentions(output.describe_loss(), "5 bytes", "lost")


async def test_writer_that_never_closes_does_not_hold_us(tmp_path: Path) -> None:
    """Another process may hold the pipe; what is in it is read, and the executor does not wait for its end."""
    output = Output(tmp_path, "x", 1000, WriterThread(), lambda: None)
    writer = os.dup(output.get_write_ends()[0])
    output.begin()
    os.write(writer, b"hello")
    await output.wait_ended(0.01)
    os.close(writer)
    assert (tmp_path / "x.out").read_bytes() == b"hello"


async def test_a_flood_of_short_lines_is_complete_and_read_in_few_pieces(tmp_path: Path) -> None:
    """Each line is a write of its own; what follows the first one gathers."""
    lines = [b"line %06d of many\n" % number for number in range(20_000)]
    readings = 0

    def came() -> None:
        nonlocal readings
        readings += 1

    pen = WriterThread()
    stream = Stream(BoundedLogFile(tmp_path / "log", 1 << 24), pen, came)
    writer = os.dup(stream.pipes[0].writing)
    stream.begin()
    await asyncio.to_thread(write_each, writer, lines)
    await asyncio.wait_for(stream.ended.wait(), 60)
    assert await pen.wait_written(60)
    assert (tmp_path / "log").read_bytes() == b"".join(lines)
    assert readings < len(lines) // 2


def write_each(descriptor: int, pieces: list[bytes]) -> None:
    """One write for each piece, as a program without buffers."""
    for piece in pieces:
        os.write(descriptor, piece)
    os.close(descriptor)


async def test_pending_output_is_taken_at_once_when_the_program_has_exited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long a batch may wait, the end does not wait for it."""
    monkeypatch.setattr("tony.executor.output.output_capture._GATHER_SECONDS", 3600.0)
    came = asyncio.Event()
    output = Output(tmp_path, "worker-0.s1.t1", 1000, WriterThread(), came.set)
    writer = os.dup(output.get_write_ends()[0])
    output.begin()
    os.write(writer, b"first\n")
    await came.wait()
    os.write(writer, b"second\n")
    os.close(writer)
    await asyncio.wait_for(output.wait_ended(60.0), 30)
    assert (tmp_path / "worker-0.s1.t1.out").read_bytes() == b"first\nsecond\n"


async def test_output_is_read_although_a_process_keeps_the_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was left behind holds the pipe open: what is in it is taken all the same."""
    monkeypatch.setattr("tony.executor.output.output_capture._GATHER_SECONDS", 3600.0)
    came = asyncio.Event()
    pen = WriterThread()
    output = Output(tmp_path, "worker-0.s1.t1", 1000, pen, came.set)
    writer = os.dup(output.get_write_ends()[0])
    output.begin()
    os.write(writer, b"first\n")
    await came.wait()
    os.write(writer, b"second\n")
    output.close()
    os.close(writer)
    assert await pen.wait_written(60)
    assert (tmp_path / "worker-0.s1.t1.out").read_bytes() == b"first\nsecond\n"


def test_a_pipe_grows_when_its_program_fills_it(tmp_path: Path) -> None:
    """Silent programs keep the kernel's small pipe: a user's share of pipe memory is small."""

    async def sizes() -> tuple[int, int]:
        pen = WriterThread()
        stream = Stream(BoundedLogFile(tmp_path / "log", 1 << 24), pen, lambda: None)
        writer = os.dup(stream.pipes[0].writing)
        before = fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ)
        os.write(writer, bytes(before))
        stream.begin()
        await asyncio.to_thread(write_all, os.dup(writer), bytes(1 << 20))
        after = fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ)
        os.close(writer)
        await asyncio.wait_for(stream.ended.wait(), 60)
        assert await pen.wait_written(60)
        return before, after

    before, after = asyncio.run(sizes())
    assert (tmp_path / "log").stat().st_size == before + (1 << 20)
    assert before < after == 1 << 20


KERAS = b"ValueError: Attempt to convert a value (PerReplica:{"
#: The end of an error of Keras 3: an array.
NOISE = b"".join(b"  [0. 0. 0. %d.]\n" % number for number in range(60))


@pytest.mark.parametrize(
    ("output", "found"),
    [
        (b"Traceback:\n  File\n" + KERAS + b"\n" + NOISE, KERAS),
        (b"KeyError: 'y'\n\nDuring handling\n\nRuntimeError: later\nbye\n", b"RuntimeError: later"),
        (b"tf.errors_impl.InvalidArgumentError: x\r\n", b"tf.errors_impl.InvalidArgumentError: x"),
        (b"AssertionError", b"AssertionError"),
        (b"[1] ValueError: of one process of several\n", b"[1] ValueError: of one process of several"),
        (b"Exception: no class of its own\n", b"Exception: no class of its own"),
        (b"  ValueError: not at the line's beginning\n", b""),
        (b"2026-01-01 ERROR x Error: y\nErrors: 3\nError rate 4\nNo Error\n", b""),
        (b"ValueError: first\n" + b"rank 0: Error\n" * 150, b"ValueError: first"),
        (b"", b""),
    ],
)
def test_the_last_line_that_looks_like_an_exception(output: bytes, found: bytes) -> None:
    """At the beginning of a line, with a class's name."""
    assert find_decisive_line(output) == found


def tail_of(folder: Path, output: bytes) -> list[str]:
    """The tail of a program that printed this on stderr."""
    found, _ = asyncio.run(printed(folder, b"", output))
    return list(found.read_tail())


@pytest.mark.parametrize("lines", [60, 2000, 20_000])
def test_it_is_in_front_of_the_tail(tmp_path: Path, lines: int) -> None:
    """Also where it came before all that is kept."""
    noise = "  [0. 0. 0. 0.]"
    tail = tail_of(tmp_path, b"begin\n" * 20_000 + KERAS + f"\n{noise}".encode() * lines)
    assert tail == [KERAS.decode(), "...", *[noise] * (TAIL_LINES - 2)]


def test_a_tail_that_has_it_is_as_it_was(tmp_path: Path) -> None:
    tail = tail_of(tmp_path, b"a\n" * 30 + b"ValueError: x\nbye\n")
    assert tail == [*["a"] * (TAIL_LINES - 2), "ValueError: x", "bye"]


def test_an_error_of_long_ago_is_none_of_the_failure(tmp_path: Path) -> None:
    assert tail_of(tmp_path, b"ValueError: x\n" + b"fine again\n" * 200_000) == ["fine again"] * TAIL_LINES


Writes = Callable[[list[int]], Awaitable[None]]


def logged(folder: Path, count: int, write: Writes, mask: SecretMask | None = None) -> bytes:
    """Return what is in the log after some processes have written to their standard output."""

    async def run() -> None:
        pen = WriterThread()
        output = Output(folder, "t", 1 << 30, pen, lambda: None, mask=mask, processes=count)
        ends = [os.dup(output.get_write_ends(rank)[0]) for rank in range(count)]
        output.begin()
        await write(ends)
        for end in ends:
            os.close(end)
        await output.wait_ended(60)

    asyncio.run(run())
    return (folder / "t.out").read_bytes()


def test_a_secret_in_pieces_is_masked(tmp_path: Path) -> None:
    """Another process prints in between, whose label would part it."""

    async def write(ends: list[int]) -> None:
        file = tmp_path / "t.out"
        os.write(ends[1], b"password correct-horse-")
        await wait_until(lambda: file.exists() and b"password" in file.read_bytes())
        os.write(ends[0], b"other\n")
        await wait_until(lambda: b"other" in file.read_bytes())
        os.write(ends[1], b"battery-9 is used\n")

    text = logged(tmp_path, 2, write, SecretMask(["correct-horse-battery-9"]))
    assert b"is used" in text
    assert not any(part in text for part in (b"correct", b"horse", b"battery"))


def test_each_line_begins_with_its_rank(tmp_path: Path) -> None:
    """Also an empty one, one without an end, and those of a progress bar."""

    async def write(ends: list[int]) -> None:
        os.write(ends[0], b"one\n\ntwo\r\n")
        os.write(ends[1], b"\r10%\r20%\rlast")

    text = logged(tmp_path, 2, write)
    assert set(text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")) == {
        *(b"[0] one", b"[0] ", b"[0] two"),
        *(b"[1] ", b"[1] 10%", b"[1] 20%", b"[1] last"),
    } | ({b""} if text.endswith(b"\n") else set())


def test_a_line_in_pieces_stays_whole(tmp_path: Path) -> None:
    """Its beginning is shown after a moment; what others print then begins on a line of its own."""

    async def write(ends: list[int]) -> None:
        file = tmp_path / "t.out"
        os.write(ends[0], b"Downloading ")
        await wait_until(lambda: file.exists() and b"Downloading" in file.read_bytes())
        os.write(ends[0], b"done\nnext ")
        await wait_until(lambda: b"next" in file.read_bytes())
        os.write(ends[1], b"other\n")
        await wait_until(lambda: b"other" in file.read_bytes())

    assert logged(tmp_path, 2, write) == b"[0] Downloading done\n[0] next \n[1] other\n"


def test_much_output_is_not_lost(tmp_path: Path) -> None:
    """More than any of the pipes holds, from all processes at once."""
    count, lines = 3, 50_000

    async def write(ends: list[int]) -> None:
        def print_lines(end: int) -> None:
            with os.fdopen(os.dup(end), "wb") as file:
                file.writelines(b"line %d\n" % number for number in range(lines))

        await asyncio.gather(*(asyncio.to_thread(print_lines, end) for end in ends))

    found = Counter(logged(tmp_path, count, write).splitlines())
    assert found == {b"[%d] line %d" % (rank, number): 1 for rank in range(count) for number in range(lines)}


@pytest.mark.parametrize("pipes", range(4))
def test_too_few_open_files_leave_none_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pipes: int) -> None:
    before = set(os.listdir("/proc/self/fd"))
    made: list[int] = []
    pipe2 = os.pipe2

    def few(flags: int) -> tuple[int, int]:
        if len(made) >= pipes:
            raise OSError(24, "Too many open files")
        made.append(0)
        return pipe2(flags)

    monkeypatch.setattr(os, "pipe2", few)
    with pytest.raises(OSError, match="Too many open files"):
        Output(tmp_path, "t", 100, WriterThread(), lambda: None, processes=2)
    assert set(os.listdir("/proc/self/fd")) == before
