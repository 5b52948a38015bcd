"""What was logged is read again, and nothing else is taken for a log."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.facts import mentions
from tests.full_disk import full_disk
from tests.value_strategies import values
from tony.core import events as ev
from tony.core.deadline import Deadline
from tony.errors import RecordError, StorageError
from tony.history.event_log import (
    FORMAT,
    MAX_LINE_BYTES,
    VERSION,
    EventTail,
    Header,
    LogEntry,
    LogWriter,
    read,
    segments,
    settings_digest,
)
from tony.model.codec import from_plain
from tony.model.job_spec import JobSpec, Role
from tony.model.masking import redact
from tony.model.setting_choices import RoleKind
from tony.model.state_directory import JobFolder

CLASSES: list[Any] = list(ev.EVENTS.values())
ANY_EVENT: st.SearchStrategy[ev.Event] = st.sampled_from(CLASSES).flatmap(values)
TIMES = st.floats(0, 1e9).map(lambda at: round(at, 6))
HEADER = Header(format=FORMAT, version=VERSION, job="test-1", attempt=1, settings="x")
SOME: list[ev.Event] = [
    ev.Queued(reason="no röom"),
    ev.DeadlinePassed(deadline=Deadline.parse("stop-limit")),
    ev.ReconcileClosed(),
    ev.Snapshot(digest="1-x"),
]


def logged(folder: Path, events: list[ev.Event], attempt: int = 1, first_seq: int = 1) -> Path:
    path = folder / f"events.{attempt}.jsonl"
    path.unlink(missing_ok=True)
    writer = LogWriter(path, replace(HEADER, attempt=attempt), first_seq)
    for number, event in enumerate(events):
        assert writer.append(event, number / 8, 1000 + number / 8) == first_seq + number
    writer.close()
    return path


def entries(events: list[ev.Event], attempt: int = 1, first_seq: int = 1) -> list[LogEntry]:
    return [
        LogEntry(seq=first_seq + n, at=n / 8, wall=1000 + n / 8, attempt=attempt, event=event)
        for n, event in enumerate(events)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples of a property."""
    return tmp_path_factory.mktemp("log")


# --- what was written -------------------------------------------------------------------------------------------------


@settings(max_examples=200)
@given(first=st.lists(ANY_EVENT, max_size=5), second=st.lists(ANY_EVENT, max_size=3))
def test_every_event_is_read_as_it_was_written(folder: Path, first: list[ev.Event], second: list[ev.Event]) -> None:
    logged(folder, first)
    logged(folder, second, attempt=2, first_seq=len(first) + 1)
    assert segments(folder) == [folder / "events.1.jsonl", folder / "events.2.jsonl"]
    assert list(read(segments(folder))) == entries(first) + entries(second, 2, len(first) + 1)
    (folder / "events.2.jsonl").unlink()


@settings(max_examples=50)
@given(at=TIMES, wall=TIMES)
def test_times_are_kept_exactly(folder: Path, at: float, wall: float) -> None:
    """A replay must see the very same `now`."""
    path = folder / "times.jsonl"
    path.unlink(missing_ok=True)
    writer = LogWriter(path, HEADER)
    writer.append(ev.ReconcileClosed(), at, wall)
    writer.close()
    assert [(entry.at, entry.wall) for entry in read([path])] == [(at, wall)]


def test_the_header_is_there_at_once(tmp_path: Path) -> None:
    """A reader of a log that was just begun sees its header."""
    writer = LogWriter(tmp_path / "events.1.jsonl", HEADER)
    assert from_plain(Header, json.loads((tmp_path / "events.1.jsonl").read_bytes())) == HEADER
    assert list(read(segments(tmp_path))) == []
    writer.close()


def test_nothing_is_seen_before_it_is_flushed(tmp_path: Path) -> None:
    """Events of one batch reach the file together."""
    writer = LogWriter(tmp_path / "events.1.jsonl", HEADER)
    writer.append(SOME[0], 0.0, 1000.0)
    assert list(read(segments(tmp_path))) == []
    writer.flush()
    assert list(read(segments(tmp_path))) == entries(SOME[:1])
    writer.close()


def test_two_writers_never_share_a_file(tmp_path: Path) -> None:
    """An existing segment belongs to another writer."""
    path = logged(tmp_path, SOME)
    with pytest.raises(StorageError, match=r"cannot create the event log .*events\.1\.jsonl: File exists"):
        LogWriter(path, HEADER)
    assert list(read([path])) == entries(SOME)


def test_a_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    """Logs hold addresses and last lines of programs."""
    assert logged(tmp_path, SOME).stat().st_mode & 0o777 == 0o600


# --- what is damaged --------------------------------------------------------------------------------------------------


@settings(max_examples=200)
@given(keep=st.integers(0, 2000))
def test_a_log_that_ends_anywhere_is_read_up_to_there(folder: Path, keep: int) -> None:
    """A torn last line was never acted upon; a file without a whole header is of an attempt that did nothing."""
    path = logged(folder, SOME)
    whole = path.read_bytes()
    path.write_bytes(whole[:keep])
    lines = whole[:keep].count(b"\n")
    assert list(read([path])) == entries(SOME[: max(0, lines - 1)])


@settings(max_examples=200)
@given(place=st.integers(0, 2000), junk=st.binary(max_size=8))
def test_a_damaged_log_is_reported_as_damaged(folder: Path, place: int, junk: bytes) -> None:
    """The result is events or an error that names the file."""
    path = logged(folder, SOME)
    whole = path.read_bytes()
    place %= len(whole)
    path.write_bytes(whole[:place] + junk + whole[place + len(junk) :])
    try:
        found, said = list(read([path])), str(path)
    except RecordError as error:
        found, said = [], str(error)
    assert str(path) in said
    assert len(found) <= len(SOME)


def _with(line: object) -> str:
    return line if isinstance(line, str) else json.dumps(line)


GOOD = {"seq": 1, "at": 0.5, "wall": 1.0, "event": "queued", "data": {"reason": "full"}}


@pytest.mark.parametrize(
    "line",
    [
        "",
        "nonsense",
        "[]",
        "17",
        "[" * 100_000,
        {**GOOD, "event": "no-such-event"},
        {**GOOD, "event": ["queued"]},
        {**GOOD, "event": None},
        {**GOOD, "data": {}},
        {**GOOD, "data": {"reason": 7}},
        {**GOOD, "data": []},
        {**GOOD, "seq": "1"},
        {**GOOD, "seq": 1.5},
        '{"seq": Infinity, "at": 0, "wall": 0, "event": "queued", "data": {"reason": ""}}',
        '{"seq": 1, "at": NaN, "wall": 0, "event": "queued", "data": {"reason": ""}}',
        {name: value for name, value in GOOD.items() if name != "at"},
    ],
    ids=lambda line: _with(line)[:60],
)
def test_a_line_that_is_no_event_is_named(tmp_path: Path, line: object) -> None:
    """File and line, and what is wrong with it."""
    path = logged(tmp_path, SOME[:1])
    with path.open("a") as file:
        file.write(_with(line) + "\n")
    with pytest.raises(RecordError, match=r"events\.1\.jsonl:3: not an event: "):
        list(read([path]))


def test_fields_of_a_newer_version_are_ignored(tmp_path: Path) -> None:
    """In the envelope and in the event."""
    path = logged(tmp_path, [])
    with path.open("a") as file:
        file.write(json.dumps({**GOOD, "more": 1, "data": {"reason": "full", "since": 7}}) + "\n")
    assert [entry.event for entry in read([path])] == [ev.Queued(reason="full")]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("hello\n", "is not an event log"),
        ("hello", "is not an event log"),
        ("\n", "is not an event log"),
        ("{}\n", "is not an event log"),
        ('{"format":"other","version":1,"job":"j","attempt":1,"settings":""}\n', "its format is 'other'"),
        (
            f'{{"format":"{FORMAT}","version":{VERSION + 1},"job":"j","attempt":1,"settings":""}}\n',
            f"has version {VERSION + 1}; this tony reads up to {VERSION}. Use a newer tony",
        ),
    ],
)
def test_another_file_is_no_log(tmp_path: Path, content: str, said: str) -> None:
    """It says what it is instead, and nothing is read of it."""
    path = tmp_path / "events.1.jsonl"
    path.write_text(content)
    with pytest.raises(RecordError, match=said):
        list(read([path]))


def test_an_endless_line_is_not_taken_into_memory(tmp_path: Path) -> None:
    """A file of another kind may have no lines at all."""
    path = logged(tmp_path, SOME[:1])
    with path.open("a") as file:
        file.write("x" * (MAX_LINE_BYTES + 1))
    with pytest.raises(RecordError, match=r"events\.1\.jsonl:3: line is longer than"):
        list(read([path]))


def test_an_event_that_is_too_long_is_not_written(tmp_path: Path) -> None:
    """One line over the limit would make the whole log unreadable."""
    writer = LogWriter(tmp_path / "events.1.jsonl", HEADER)
    with pytest.raises(RecordError, match="is too long"):
        writer.append(ev.Queued(reason="x" * MAX_LINE_BYTES), 0.0, 0.0)
    assert writer.append(SOME[0], 0.0, 1000.0) == 1
    writer.close()
    assert list(read(segments(tmp_path))) == entries(SOME[:1])


def test_half_characters_are_logged(tmp_path: Path) -> None:
    """Names of files that are no text come through the wire as such, and must not end a job."""
    path = logged(tmp_path, [ev.Queued(reason="\ud800")])
    assert [entry.event for entry in read([path])] == [ev.Queued(reason="\ud800")]


# --- reading on -------------------------------------------------------------------------------------------------------


def test_the_tail_reads_the_same_events_as_the_whole_log(tmp_path: Path) -> None:
    """From before the first event, over AM attempts, each once."""
    tail = EventTail(JobFolder(tmp_path))
    assert list(tail.read_new()) == []
    logged(tmp_path, SOME[:2])
    first = list(tail.read_new())
    logged(tmp_path, SOME[2:], attempt=2, first_seq=3)
    rest = list(tail.read_new())
    assert first + rest == list(read(segments(tmp_path)))
    assert [(entry.seq, entry.attempt) for entry in first + rest] == [(1, 1), (2, 1), (3, 2), (4, 2)]
    assert list(tail.read_new()) == []


@pytest.mark.parametrize(("kept", "found"), [(slice(-5), [1]), (slice(20), [])])
def test_a_line_that_is_not_whole_waits(tmp_path: Path, kept: slice, found: list[int]) -> None:
    """What is torn now, be it the header, is whole at the next look."""
    path = logged(tmp_path, SOME[:2])
    whole = path.read_bytes()
    path.write_bytes(whole[kept])
    tail = EventTail(JobFolder(tmp_path))
    assert [entry.seq for entry in tail.read_new()] == found
    path.write_bytes(whole)
    assert found + [entry.seq for entry in tail.read_new()] == [1, 2]


# --- what cannot be read or written -----------------------------------------------------------------------------------


def test_a_full_disk_is_reported_and_leaves_a_clean_log(tmp_path: Path) -> None:
    """The event that did not fit is torn, and the reader skips it."""
    writer = LogWriter(tmp_path / "events.1.jsonl", HEADER)
    writer.append(SOME[0], 0.0, 1000.0)
    writer.flush()
    size = (tmp_path / "events.1.jsonl").stat().st_size
    with full_disk(size + 20):
        writer.append(SOME[1], 0.0, 1000.0)
        with pytest.raises(StorageError, match=r"cannot write the event log .*: File too large"):
            writer.flush()
    writer.close()
    assert (tmp_path / "events.1.jsonl").stat().st_size == size + 20
    assert list(read(segments(tmp_path))) == entries(SOME[:1])


def test_a_disk_without_room_for_the_first_line(tmp_path: Path) -> None:
    with full_disk(0), pytest.raises(StorageError, match="cannot write the event log"):
        LogWriter(tmp_path / "events.1.jsonl", HEADER)


def test_a_full_file_system_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same words as where a task's files find no room, whichever of the two is first."""

    def refuse(descriptor: int, data: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    writer = LogWriter(tmp_path / "events.1.jsonl", HEADER)
    writer.append(SOME[0], 0.0, 1000.0)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", refuse)
        with pytest.raises(StorageError) as caught:
            writer.flush()
    writer.close()
    assert mentions(str(caught.value), f"{tmp_path}/events.1.jsonl", tmp_path)


def test_a_log_that_cannot_be_read(tmp_path: Path) -> None:
    """Gone, or not a file: the storage's fault, not the log's."""
    (tmp_path / "folder").mkdir()
    for name in ("missing", "folder"):
        with pytest.raises(StorageError, match=f"cannot read the event log .*{name}"):
            list(read([tmp_path / name]))


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """No place for a log is an error with its path; no log is no segment."""
    with pytest.raises(StorageError, match=r"cannot create the event log .*: No such file or directory"):
        LogWriter(tmp_path / "nowhere" / "events.1.jsonl", HEADER)
    assert segments(tmp_path / "nowhere") == []


# --- the digest of settings -------------------------------------------------------------------------------------------


SPEC = JobSpec(command="train", roles={"chief": Role(), "worker": Role(instances=2)}, max_restarts=2)


@pytest.mark.parametrize(
    "other",
    [
        replace(SPEC, command="train harder"),
        replace(SPEC, max_restarts=3),
        replace(SPEC, roles={**SPEC.roles, "worker": Role(instances=3)}),
        replace(SPEC, roles={**SPEC.roles, "worker": Role(instances=2, kind=RoleKind.SIDECAR)}),
        replace(SPEC, roles=dict(reversed(list(SPEC.roles.items())))),
        replace(SPEC, roles={**SPEC.roles, "ps": Role()}),
    ],
)
def test_jobs_that_decide_otherwise_have_another_digest(other: JobSpec) -> None:
    """Also another order of roles: it is the order of ranks."""
    assert settings_digest(other) != settings_digest(SPEC)


def test_a_record_without_secrets_has_the_digest_of_the_job() -> None:
    """A replay has the masked job only."""
    roles = {**SPEC.roles, "chief": Role(env={"API_KEY": "hush", "A": "http://me:hush@there/"})}
    spec = replace(
        SPEC, roles=roles, env={"TOKEN": "hush"}, params={"key": "hush"}, scheduler_settings={"token": "hush"}
    )
    assert redact(spec) != spec
    assert settings_digest(redact(spec)) == settings_digest(spec)


def test_a_setting_at_its_default_is_not_in_the_digest() -> None:
    """So a digest holds when a later version has more settings."""
    assert settings_digest(JobSpec()) == hashlib.sha256(b'{"job":{},"roles":{}}').hexdigest()
