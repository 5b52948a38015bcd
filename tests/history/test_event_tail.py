"""Reading on in a log gives every event once, whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobs.fake_am import logged, recorded
from tony.core.events import Queued
from tony.errors import RecordError
from tony.history.event_log import EventTail, read, segments
from tony.model.layout import Home, JobFolder


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    return recorded(Home(tmp_path))[0]


def test_before_the_first_event_there_is_nothing(folder: JobFolder) -> None:
    """A job that is just coming up has no log yet."""
    tail = EventTail(folder)
    assert list(tail.read_new()) == []
    logged(folder, [Queued(reason="a")])
    assert [entry.event for entry in tail.read_new()] == [Queued(reason="a")]


def test_the_tail_reads_the_same_events_as_the_whole_log(folder: JobFolder) -> None:
    """Over AM attempts, too."""
    tail = EventTail(folder)
    logged(folder, [Queued(reason="a"), Queued(reason="no room")])
    first = list(tail.read_new())
    logged(folder, [Queued(reason="b")], attempt=2, first_seq=3)
    rest = list(tail.read_new())
    assert first + rest == list(read(segments(folder.path)))
    assert [(entry.seq, entry.attempt) for entry in first + rest] == [(1, 1), (2, 1), (3, 2)]
    assert list(tail.read_new()) == []


def test_a_line_that_is_not_whole_waits(folder: JobFolder) -> None:
    """What is torn now is whole at the next look."""
    logged(folder, [Queued(reason="a"), Queued(reason="b")])
    path = folder.events(1)
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    tail = EventTail(folder)
    assert [entry.seq for entry in tail.read_new()] == [1]
    path.write_bytes(whole)
    assert [entry.seq for entry in tail.read_new()] == [2]


def test_a_torn_header_waits(folder: JobFolder) -> None:
    """Even the first line may be torn."""
    logged(folder, [Queued(reason="a")])
    path = folder.events(1)
    whole = path.read_bytes()
    path.write_bytes(whole[:20])
    tail = EventTail(folder)
    assert list(tail.read_new()) == []
    path.write_bytes(whole)
    assert [entry.seq for entry in tail.read_new()] == [1]


@pytest.mark.parametrize("line", ["{}", "[]", "x", '{"seq": 1, "at": 0, "wall": 0, "event": "flown", "data": {}}'])
def test_a_line_that_is_no_event_is_reported(folder: JobFolder, line: str) -> None:
    """The message names the file and the line."""
    logged(folder, [])
    with folder.events(1).open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(RecordError, match=r"events\.1\.jsonl:2: not an event"):
        list(EventTail(folder).read_new())


def test_a_file_that_is_no_event_log_is_reported(folder: JobFolder) -> None:
    folder.events(1).write_text("hello\n")
    with pytest.raises(RecordError, match="is not an event log"):
        list(EventTail(folder).read_new())
