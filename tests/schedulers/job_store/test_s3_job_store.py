"""A job's files in S3: however late a request of a replaced AM attempt is, it changes no log that was taken over."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.schedulers.job_store.test_piece_log import SCHEDULES, follow_schedule
from tests.support.fake_s3 import FakeS3, FakeS3Object
from tony import http_requests
from tony.errors import StorageError
from tony.model.state_directory import build_segment_name
from tony.schedulers.job_store.job_store import LogAppender, StoredFile
from tony.schedulers.job_store.piece_log import EventLogPiece, SupersededLogError
from tony.schedulers.job_store.s3_job_store import S3JobStore
from tony.storage.s3.bucket import S3Bucket, S3RefusedError, S3UnavailableError
from tony.storage.stores.log_pieces import join_log_pieces
from tony.storage.stores.store_interface import Item

FOLDER = "/bucket/ann/jobs/j"


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeS3]:
    monkeypatch.setattr(http_requests, "_PAUSES", [0.0] * 10)
    with FakeS3().serve() as found:
        yield found


@pytest.fixture
def attempts(s3: FakeS3) -> list[S3JobStore]:
    """The stores of three processes."""
    return [S3JobStore(lambda: S3Bucket("bucket", s3.variables, max_tries=2), "bucket", "ann/jobs/j") for _ in range(3)]


@pytest.fixture
def store(attempts: list[S3JobStore]) -> S3JobStore:
    return attempts[0]


def claim(store: S3JobStore) -> int:
    return store.claim_attempt(build_segment_name)


def write(store: S3JobStore, attempt: int, data: bytes) -> LogAppender:
    """Write to the log of an attempt, and wait until that is durable, or the log has ended."""
    reports: queue.Queue[int] = queue.Queue()
    log = store.open_log(build_segment_name(attempt), 0.0, 1 << 20, reports.put)
    log.write(data)
    log.hurry()
    while not log.error and reports.get(timeout=60) < len(data):
        pass
    return log


def read_log(s3: FakeS3, name: str) -> bytes:
    return b"".join(s3.objects[path].content for path in sorted(s3.objects) if path.startswith(f"{FOLDER}/{name}."))


def test_each_attempt_has_a_number_of_its_own(attempts: list[S3JobStore], s3: FakeS3) -> None:
    assert [claim(store) for store in attempts] == [1, 2, 3]
    write(attempts[1], 2, b"two\n").close(60.0)
    assert read_log(s3, "events.2.jsonl") == b"two\n"


@pytest.mark.parametrize("is_open", [False, True])
def test_a_log_that_was_taken_over_cannot_be_written(attempts: list[S3JobStore], s3: FakeS3, is_open: bool) -> None:
    """Neither by an attempt that has written to it, nor by one that was suspended before it opened it."""
    old, new, _ = attempts
    claim(old)
    log = write(old, 1, b"one\n") if is_open else None
    claim(new)
    expected = b"one\n" if is_open else b""
    stored = StoredFile(name="events.1.closed.jsonl", size=len(expected), modified_ms=0)
    for _ in range(2):
        assert new.take_over_log("events.1.jsonl") == stored
    if log:
        log.write(b"late\n")
        log.hurry()
        log.close(60.0)
    else:
        log = write(old, 1, b"late\n")
    assert isinstance(log.error, SupersededLogError)
    assert old.is_taken_over("events.1.jsonl")
    assert read_log(s3, "events.1.jsonl") == expected
    assert new.read("events.1.closed.jsonl", 0, 100) == expected


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SCHEDULES)
def test_what_a_reader_saw_of_a_closed_log_stays(store: S3JobStore, s3: FakeS3, steps: list[str]) -> None:
    s3.objects.clear()
    follow_schedule(store._open_pieces("events.1.jsonl"), steps)


def test_a_log_that_does_not_exist_is_taken_over(attempts: list[S3JobStore]) -> None:
    """Its writer was suspended before it claimed it."""
    old, new, _ = attempts
    assert new.take_over_log("events.1.jsonl") == StoredFile(name="events.1.closed.jsonl", size=0, modified_ms=0)
    with pytest.raises(StorageError, match=r"s3://bucket/ann/jobs/j: another process writes events\.1\.jsonl"):
        old.open_log("events.1.jsonl", 0.0, 1 << 20, lambda _: None)
    assert claim(old) == 2


def test_lost_answers_are_not_taken_for_another_writer(attempts: list[S3JobStore], s3: FakeS3) -> None:
    """Of a claim: its second request is refused. Of a piece: it has been written once."""
    s3.lost = ["PUT"]
    assert claim(attempts[0]) == 1
    log = write(attempts[0], 1, b"one\n")
    s3.lost = ["PUT", "PUT", "PUT"]
    log.write(b"two\n")
    log.close(60.0)
    assert (log.error, read_log(s3, "events.1.jsonl")) == (None, b"one\ntwo\n")


def test_a_claim_without_any_answer_is_repeated(attempts: list[S3JobStore], s3: FakeS3) -> None:
    """It wastes no number."""
    s3.lost = ["PUT", "PUT"]
    with pytest.raises(S3UnavailableError):
        claim(attempts[0])
    assert [claim(store) for store in attempts] == [1, 2, 3]


def test_a_conflict_is_tried_again(store: S3JobStore, s3: FakeS3) -> None:
    s3.refusals["PUT"] = (409, "ConditionalRequestConflict", "Try again.", 1)
    assert claim(store) == 1


def test_files(store: S3JobStore, s3: FakeS3, tmp_path: Path) -> None:
    assert store.list() == {}
    (tmp_path / "m").write_bytes(bytes(range(256)) * 5000)
    store.put("metrics.db", tmp_path / "m")
    store.put_json("job.json", {"a": 1})
    for other in ("x/y", ".draft", "UPPER", "job.json.bak"):
        s3.objects[f"{FOLDER}/{other}"] = FakeS3Object(content=b"x")
    found = store.find("metrics.db")
    assert found
    assert (found.size, store.list()) == (1_280_000, {"metrics.db": found, "job.json": store.find("job.json")})
    assert store.read("metrics.db", 250, 10) == bytes([250, 251, 252, 253, 254, 255, 0, 1, 2, 3])
    assert (store.read("metrics.db", 1_280_000, 10), store.read("job.json", 0, 3)) == (b"", b'{"a')
    store.delete("metrics.db")
    store.delete("metrics.db")
    assert (store.find("metrics.db"), store.find("job.jso"), store.read("metrics.db", 0, 1)) == (None, None, None)


def test_a_log_is_read_piece_by_piece(store: S3JobStore, s3: FakeS3) -> None:
    s3.page = 2
    claim(store)
    pieces = store._open_pieces("events.1.jsonl")
    for number, data in enumerate((b"one\n", b"two\n", b"three\n"), 1):
        assert pieces.create(number, EventLogPiece("x", data))
    assert store.read("events.1.jsonl", 2, 8) == b"e\ntwo\nth"
    assert store.list() == {"events.1.jsonl": StoredFile(name="events.1.jsonl", size=14, modified_ms=0)}
    del s3.objects[f"{FOLDER}/events.1.jsonl.000002"]
    with pytest.raises(StorageError, match=r"s3://bucket/ann/jobs/j/events\.1\.jsonl: pieces are missing"):
        store.read("events.1.jsonl", 0, 100)


def test_the_portal_knows_the_pieces(store: S3JobStore, s3: FakeS3) -> None:
    """Where the Job is gone, it reads the folder as any other in S3."""
    claim(store)
    write(store, 1, b"one\n").close(60.0)
    items = [
        Item(name=path.rpartition("/")[2], folder=False, size=len(found.content)) for path, found in s3.objects.items()
    ]
    assert join_log_pieces(items) == [Item(name="events.1.jsonl", folder=False, size=4)]


def test_a_server_that_ignores_conditions_is_refused(store: S3JobStore, s3: FakeS3) -> None:
    store.check()
    s3.ignores_conditions = True
    with pytest.raises(StorageError, match=r'127\.0\.0\.1:\d+ ignores If-None-Match, .*history = "configmaps"'):
        store.check()
    assert not s3.objects


def test_a_lost_answer_of_the_check_refuses_no_server(store: S3JobStore, s3: FakeS3) -> None:
    s3.lost = ["PUT"]
    store.check()


def test_which_errors_last(store: S3JobStore, s3: FakeS3) -> None:
    s3.refusals["GET"] = (403, "AccessDenied", "no", 1)
    with pytest.raises(S3RefusedError) as refused:
        store.list()
    s3.refusals["GET"] = (503, "SlowDown", "no", 2)
    with pytest.raises(S3UnavailableError) as unavailable:
        store.list()
    assert (store.is_permanent(refused.value), store.is_permanent(unavailable.value)) == (True, False)
