"""How far a program is, from lines that it prints."""

import time
from pathlib import Path

import pytest

from tony.executor.metrics.progress_listener import Advance
from tony.executor.metrics.progress_pattern import LogPattern
from tony.executor.output.log_file import BoundedLogFile
from tony.executor.output.output_capture import Stream
from tony.executor.output.writer_thread import WriterThread

PATTERN = r"step (?P<step>\d+)(?:/(?P<total>\d+))?(?: loss (?P<loss>\S+))?"


class Printed:
    """A stream to which a test prints."""

    def __init__(self, folder: Path, name: str) -> None:
        self.stream = Stream(BoundedLogFile(folder / name, 1 << 20), WriterThread(), lambda: None)

    def print(self, text: str) -> None:
        self.stream._keep(text.encode())


@pytest.fixture
def streams(tmp_path: Path) -> tuple[Printed, Printed]:
    return Printed(tmp_path, "out"), Printed(tmp_path, "err")


def poll(pattern: LogPattern, streams: tuple[Printed, Printed]) -> Advance | None:
    return pattern.poll([each.stream for each in streams])


def test_the_newest_of_each_number_counts(streams: tuple[Printed, Printed]) -> None:
    """Whichever lines they are in, and whichever stream; each line is looked at once, half a line not yet."""
    out, err = streams
    pattern = LogPattern(PATTERN)
    assert poll(pattern, streams) is None
    out.print("hello\nstep 1/100 loss 0.9\nstep 2\nste")
    assert poll(pattern, streams) == Advance(2.0, 100.0, {"user.loss": 0.9})
    assert poll(pattern, streams) is None
    out.print("p 3 loss nan\n")
    assert poll(pattern, streams) == Advance(3.0)
    err.print("\rstep 4 loss 1,000.5%\rstep 5")
    assert poll(pattern, streams) == Advance(4.0, None, {"user.loss": 1000.5})


def test_the_label_of_a_process_is_no_part_of_its_line(streams: tuple[Printed, Printed]) -> None:
    """A pattern with `^` is written for what the program prints."""
    out, _ = streams
    out.stream.is_labelled = True
    out.print("[1] step 7\n")
    assert poll(LogPattern("^step (?P<step>[0-9]+)"), streams) == Advance(7.0)


def test_of_much_output_the_end_is_looked_at(streams: tuple[Printed, Printed]) -> None:
    """What is not kept any longer is not missed."""
    pattern = LogPattern(PATTERN)
    for number in range(30):
        streams[0].print(f"step {number}\n" + "x" * 20_000 + "\n")
    assert poll(pattern, streams) == Advance(29.0)


def test_a_pattern_that_takes_for_ever_is_given_up(
    streams: tuple[Printed, Printed], caplog: pytest.LogCaptureFixture
) -> None:
    """The heart of the executor continues beating; the log says why there is no progress."""
    pattern = LogPattern(r"(?P<step>(\d+)+)x")
    streams[0].print("1" * 60 + "\n")
    began = time.process_time()
    assert poll(pattern, streams) is None
    assert time.process_time() - began < 20
    assert "is disabled" in caplog.text
    streams[0].print("7x\n")
    assert poll(pattern, streams) is None


def test_names_that_cannot_be_series_are_left_out(streams: tuple[Printed, Printed]) -> None:
    pattern = LogPattern(r"(?P<step>\d+) (?P<_hidden>\d+) (?P<größe>\d+)")
    streams[0].print("1 2 3\n")
    assert poll(pattern, streams) == Advance(1.0)
