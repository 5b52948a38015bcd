"""A job directory is copied from HDFS into the local folder, piece by piece, also by several processes at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hadoop.fake_webhdfs import FakeFile, FakeWebHdfs, Trouble
from tony.hadoop.configuration import Configuration
from tony.model.state_directory import Home, JobFolder
from tony.schedulers.job_store.hdfs_job_store import HdfsJobStore
from tony.schedulers.job_store.record_download import RecordDownload
from tony.schedulers.yarn.cluster_clients import ClusterClients

JOB = "application_1700000000000_0007"
THERE = f"/user/ann/.tony/jobs/{JOB}"


@pytest.fixture
def files() -> Iterator[FakeWebHdfs]:
    with FakeWebHdfs() as hdfs:
        hdfs.files[THERE] = FakeFile()
        yield hdfs


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    folder = Home(tmp_path).job(JOB)
    folder.path.mkdir(parents=True)
    return folder


def record(files: FakeWebHdfs, folder: JobFolder) -> RecordDownload:
    given = {"fs.defaultFS": "hdfs://127.0.0.1:8020", "dfs.namenode.http-address": f"127.0.0.1:{files.port}"}
    cluster = ClusterClients.from_configuration(Configuration.load(None, {}, given=given), {"HADOOP_USER_NAME": "ann"})
    return RecordDownload(HdfsJobStore(cluster, THERE), folder)


def test_nothing_is_there_yet(files: FakeWebHdfs, folder: JobFolder) -> None:
    del files.files[THERE]
    record(files, folder).fetch()
    assert list(folder.path.iterdir()) == []


def test_events_grow(files: FakeWebHdfs, folder: JobFolder) -> None:
    """Only what is new is read."""
    for content in (b"one\n", b"one\ntwo\n", b"one\ntwo\n"):
        files.files[f"{THERE}/events.1.jsonl"] = FakeFile(content=content)
        record(files, folder).fetch()
        assert folder.events(1).read_bytes() == content


def test_two_fetch_at_once(files: FakeWebHdfs, folder: JobFolder) -> None:
    """Another client of the same home is quicker: nothing is there twice."""
    files.files[f"{THERE}/events.1.jsonl"] = FakeFile(content=b"one\ntwo\nthree\n")
    folder.events(1).write_bytes(b"one\n")
    files.before("OPEN", lambda _: folder.events(1).write_bytes(b"one\ntwo\nthree\n"))
    record(files, folder).fetch()
    assert folder.events(1).read_bytes() == b"one\ntwo\nthree\n"


def test_a_log_is_taken_meanwhile(files: FakeWebHdfs, folder: JobFolder) -> None:
    """By a later attempt, which gives it another name: the rest of the record comes, and its rest the next time."""
    files.files[f"{THERE}/events.1.jsonl"] = FakeFile(content=b"one\n")
    files.files[f"{THERE}/summary.json"] = FakeFile(content=b"{}")

    def take(_: str) -> None:
        if log := files.files.pop(f"{THERE}/events.1.jsonl", None):
            files.files[f"{THERE}/events.1.closed.jsonl"] = log

    files.before("OPEN", take)
    record(files, folder).fetch()
    assert folder.summary.exists()
    assert folder.events(1).read_bytes() == b""
    record(files, folder).fetch()
    assert folder.events(1).read_bytes() == b"one\n"


def test_the_last_report_names_the_folder_here(files: FakeWebHdfs, folder: JobFolder) -> None:
    """The one that the master had is on a node, and gone."""
    files.files[f"{THERE}/summary.json"] = FakeFile(content=b'{"folder":"/node/gone","state":"failed"}')
    record(files, folder).fetch()
    assert json.loads(folder.summary.read_bytes()) == {"folder": str(folder.path), "state": "failed"}


def test_credentials_are_their_owners_alone(files: FakeWebHdfs, folder: JobFolder) -> None:
    files.files[f"{THERE}/access.json"] = FakeFile(content=b"{}")
    record(files, folder).fetch()
    assert folder.credentials.stat().st_mode & 0o777 == 0o600
    assert folder.credentials.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("content", [b'{"address":"unix:/tmp/x"}', b"x", b"[" * 60_000, b"[]", b'{"address":7}'])
def test_an_address_of_this_machine_is_not_taken(files: FakeWebHdfs, folder: JobFolder, content: bytes) -> None:
    """Others may be able to write there: a socket of theirs would get the job's token, without TLS."""
    files.files[f"{THERE}/am.json"] = FakeFile(content=content)
    record(files, folder).fetch()
    assert not folder.am.exists()


def test_no_credentials_come_after_the_end(files: FakeWebHdfs, folder: JobFolder) -> None:
    """Another process has written the last report here, and removed the credentials, during the transfer."""
    for name in ("access.json", "am.json"):
        files.files[f"{THERE}/{name}"] = FakeFile(content=b"{}")
    files.before("LISTSTATUS_BATCH", lambda _: folder.summary.write_bytes(b"{}"))
    folder.kill_request.write_bytes(b"{}")
    record(files, folder).fetch()
    assert not folder.secret.exists()
    assert not folder.am.exists()
    assert not folder.kill_request.exists()


def test_secrets_of_a_master_that_died(files: FakeWebHdfs, folder: JobFolder) -> None:
    """They go; that they cannot be removed ends nothing else."""
    secrets = [f"{THERE}/{name}" for name in ("access.json", ".access.json.new", "am.json")]
    for path in secrets:
        files.files[path] = FakeFile(content=b"{}")
    files.fail_next("DELETE", Trouble.FORBIDDEN)
    record(files, folder).forget_secrets()
    record(files, folder).forget_secrets()
    assert not files.files.keys() & set(secrets)


def measured(folder: JobFolder) -> tuple[bytes | None, list[str]]:
    """What is here of what was measured, and the names of drafts that were left."""
    drafts = [path.name for path in folder.path.iterdir() if path.name.startswith(".metrics")]
    return folder.metrics.read_bytes() if folder.metrics.exists() else None, drafts


def test_changed_metrics_are_downloaded(files: FakeWebHdfs, folder: JobFolder) -> None:
    """They are rewritten as the job runs; the same file is not read twice."""
    name = f"{THERE}/metrics.db"
    reads: list[str] = []
    for content, modified, count in ((b"one", 1000, 1), (b"one", 1000, 1), (b"two", 2000, 2), (b"longer", 2000, 3)):
        files.files[name] = FakeFile(content=content, modified_ms=modified)
        files.before("OPEN", reads.append)
        record(files, folder).fetch()
        assert measured(folder) == (content, [])
        assert folder.metrics.stat().st_mode & 0o777 == 0o600
        assert len([path for path in reads if "metrics" in path]) >= count - 1


def test_a_file_that_changes_during_its_download_comes_the_next_time(files: FakeWebHdfs, folder: JobFolder) -> None:
    """Never half of one and half of another."""
    name = f"{THERE}/metrics.db"
    files.files[name] = FakeFile(content=b"old", modified_ms=1000)

    def change(_: str) -> None:
        files.files[name] = FakeFile(content=b"new", modified_ms=2000)

    files.before("OPEN", change)
    record(files, folder).fetch()
    assert measured(folder) == (None, [])
    record(files, folder).fetch()
    assert measured(folder) == (b"new", [])


def test_large_metrics_are_downloaded_at_the_end(
    files: FakeWebHdfs, folder: JobFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large file would be transferred again and again for little."""
    monkeypatch.setattr("tony.schedulers.job_store.record_download._MAX_REPEATED_BYTES", 10)
    files.files[f"{THERE}/metrics.db"] = FakeFile(content=b"x" * 11)
    record(files, folder).fetch()
    assert measured(folder) == (None, [])
    files.files[f"{THERE}/summary.json"] = FakeFile(content=b"{}")
    record(files, folder).fetch()
    assert measured(folder) == (b"x" * 11, [])
