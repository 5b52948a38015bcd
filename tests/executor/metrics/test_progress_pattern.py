"""How far a program is, from lines that it prints."""

import time
from pathlib import Path

import pytest

from tony import clock
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


def test_the_first_step_is_the_first_one_printed(
    streams: tuple[Printed, Printed], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the newest one at the first look, however much is printed in between. Each step has the time of its line."""
    now = 100.0
    monkeypatch.setattr(clock, "monotonic", lambda: now)
    pattern = LogPattern(PATTERN)
    for step in range(11, 14):
        now += 1.0
        streams[0].print("x\n" * 600 + f"step {step}/20\n")
    now += 10.0
    streams[0].print("saved\n")
    assert poll(pattern, streams) == Advance(13.0, 20.0)
    assert (pattern.first, pattern.stepped, pattern.reports) == ((11.0, 101.0), 103.0, 3)
    streams[0].print("step 14/20\n")
    now += 5.0
    assert poll(pattern, streams) == Advance(14.0, 20.0)
    assert (pattern.first, pattern.stepped, pattern.reports) == ((11.0, 101.0), 113.0, 4)


def test_steps_that_are_printed_at_once_are_one_report(streams: tuple[Printed, Printed]) -> None:
    """A program that prints through a buffer shows nothing of the time between its steps."""
    pattern = LogPattern(PATTERN)
    streams[0].print("step 1\nstep 2\nstep 3\n")
    assert poll(pattern, streams) == Advance(3.0)
    assert pattern.first
    assert pattern.first[0] == 1.0
    assert pattern.reports == 1


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
