"""AM attempts that number themselves in HDFS: what one does late does not change a log that a later one has read."""

from __future__ import annotations

import queue
from collections.abc import Iterator

import pytest

from tests.support.hadoop.fake_webhdfs import FakeFile, FakeWebHdfs
from tony.hadoop.configuration import Configuration
from tony.hadoop.errors import FileMissingError
from tony.model.state_directory import build_segment_name
from tony.schedulers.job_store.hdfs_job_store import HdfsJobStore
from tony.schedulers.job_store.job_store import LogAppender
from tony.storage.hdfs.hdfs_clients import HdfsClients

FOLDER = "/user/ann/tony/jobs/j"


@pytest.fixture
def hdfs(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeWebHdfs]:
    monkeypatch.setattr(HdfsClients, "recover_lease", lambda *_: True)
    with FakeWebHdfs() as found:
        yield found


@pytest.fixture
def attempts(hdfs: FakeWebHdfs) -> Iterator[list[HdfsJobStore]]:
    """The stores of three processes."""
    given = {"fs.defaultFS": "hdfs://nn:8020", "dfs.namenode.http-address": f"127.0.0.1:{hdfs.port}"}
    clients = HdfsClients.from_configuration(Configuration.load(None, {}, given=given), {"HADOOP_USER_NAME": "ann"})
    stores = [HdfsJobStore(clients, FOLDER) for _ in range(3)]
    yield stores
    for store in stores:
        store.close()


def claim(store: HdfsJobStore) -> int:
    return store.claim_attempt(build_segment_name)


def write(store: HdfsJobStore, attempt: int, data: bytes) -> LogAppender:
    """Write to the log of an attempt, and wait until that is durable, or the log has ended."""
    reports: queue.Queue[int] = queue.Queue()
    log = store.open_log(build_segment_name(attempt), 0.0, 1 << 20, reports.put)
    log.write(data)
    log.hurry()
    while not log.error and reports.get(timeout=60) < len(data):
        pass
    return log


def list_names(hdfs: FakeWebHdfs) -> dict[str, bytes | None]:
    return {path.rpartition("/")[2]: file.content for path, file in hdfs.files.items() if path.startswith(f"{FOLDER}/")}


def test_each_attempt_has_a_number_of_its_own(attempts: list[HdfsJobStore], hdfs: FakeWebHdfs) -> None:
    assert [claim(store) for store in attempts] == [1, 2, 3]
    assert hdfs.files[FOLDER].permission == 0o700
    write(attempts[1], 2, b"two\n").close(60.0)
    assert list_names(hdfs)["events.2.jsonl"] == b"two\n"


@pytest.mark.parametrize("is_open", [False, True])
def test_a_log_that_was_taken_over_cannot_be_written(
    attempts: list[HdfsJobStore], hdfs: FakeWebHdfs, is_open: bool
) -> None:
    """Neither by an attempt that has written to it, nor by one that was suspended before it opened it."""
    old, new, _ = attempts
    claim(old)
    log = write(old, 1, b"one\n") if is_open else None
    claim(new)
    stored = new.take_over_log("events.1.jsonl")
    assert stored is not None
    if log:
        log.write(b"late\n")
        log.hurry()
        with pytest.raises(FileMissingError):
            log.close(60.0)
    else:
        assert isinstance(write(old, 1, b"late\n").error, FileMissingError)
    assert old.is_taken_over("events.1.jsonl")
    expected = b"one\n" if is_open else b""
    assert list_names(hdfs) == {"events.1.closed.jsonl": expected, "events.2.jsonl": b""}


def test_a_number_that_is_claimed_late_is_not_used(attempts: list[HdfsJobStore], hdfs: FakeWebHdfs) -> None:
    """Its request was under way while another process had the number, and a third one took its log over."""

    def claim_before(path: str) -> None:
        if path == f"{FOLDER}/events.1.jsonl":
            hdfs.files |= {f"{FOLDER}/events.{name}.jsonl": FakeFile(content=b"") for name in ("1.closed", "2")}

    hdfs.before("CREATE", claim_before)
    assert claim(attempts[0]) == 3
    assert sorted(list_names(hdfs)) == ["events.1.closed.jsonl", "events.2.jsonl", "events.3.jsonl"]


def test_an_attempt_whose_log_was_closed_still_has_its_number(attempts: list[HdfsJobStore], hdfs: FakeWebHdfs) -> None:
    hdfs.files[FOLDER] = FakeFile()
    hdfs.files[f"{FOLDER}/events.1.closed.jsonl"] = FakeFile(content=b"")
    assert claim(attempts[0]) == 2
