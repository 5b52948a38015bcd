"""Replication of the event log to HDFS: what is confirmed as durable, and when waiting is waived."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from tests.facts import mentions
from tests.schedulers.yarn import fake_cluster as scene
from tests.schedulers.yarn.fake_cluster import start_fake_cluster
from tests.support.hadoop.fake_webhdfs import FakeFile, Trouble
from tony.errors import AttemptSupersededError
from tony.retry import Backoff
from tony.schedulers.job_store import event_log_replication

LOG, CLOSED = f"{scene.FOLDER}/events.1.jsonl", f"{scene.FOLDER}/events.1.closed.jsonl"


async def test_urgent_is_there_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An action waits for one write, however rare the others are; what is confirmed is in HDFS."""
    monkeypatch.setattr(event_log_replication, "_WRITE_SECONDS", 1000.0)
    async with start_fake_cluster(tmp_path, opens=False) as cluster:
        said = cluster.log(b"header\n")
        cluster.wrote(b"one\n")
        size = cluster.wrote(b"two\n", urgent=True)
        await cluster.until(lambda: size in said)
        assert cluster.file("events.1.jsonl") == b"header\none\ntwo\n"
        assert said == sorted(said)


async def test_non_urgent_writes_are_batched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many small writes of the log are few of the file's; all are confirmed."""
    monkeypatch.setattr(event_log_replication, "_WRITE_SECONDS", 0.2)
    appends = 0

    def count(_: str) -> None:
        nonlocal appends
        appends += 1

    async with start_fake_cluster(tmp_path, opens=False) as cluster:
        said = cluster.log(b"header\n")
        cluster.files.before("APPEND", count)
        for number in range(20):
            size = cluster.wrote(b"%d\n" % number)
            await asyncio.sleep(0.005)
        await cluster.until(lambda: said and said[-1] == size)
        assert appends < 10


async def test_a_job_does_not_hang_on_hdfs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """While it takes nothing the wait is given up, at first after a moment and then at once; it catches up later."""
    monkeypatch.setattr(event_log_replication, "_WAIT_SECONDS", 0.1)
    caplog.set_level(logging.INFO, logger="tony")
    async with start_fake_cluster(tmp_path, opens=False) as cluster:
        said = cluster.log(b"header\n")
        await cluster.until(lambda: cluster.file("events.1.jsonl") == b"header\n")
        cluster.files.fail_next("APPEND", *[Trouble.SAFE_MODE] * 10_000)
        first = cluster.wrote(b"one\n")  # a report is acknowledged as well, although it is not urgent
        await cluster.until(lambda: first in said)
        second = cluster.wrote(b"two\n", urgent=True)
        await cluster.until(lambda: second in said)
        assert cluster.file("events.1.jsonl") == b"header\n"
        assert "has made no progress for" in caplog.text
        cluster.files.troubles_over()
        await cluster.until(lambda: "is complete again" in caplog.text)
        assert cluster.file("events.1.jsonl") == b"header\none\ntwo\n"
        last = cluster.wrote(b"three\n", urgent=True)
        await cluster.until(lambda: last in said)
        await cluster.until(lambda: cluster.file("events.1.jsonl") == b"header\none\ntwo\nthree\n")


async def test_it_cannot_even_be_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first effects wait no longer than others; all is there when HDFS is."""
    monkeypatch.setattr(event_log_replication, "_WAIT_SECONDS", 0.1)
    async with start_fake_cluster(tmp_path, opens=False) as cluster:
        cluster.files.fail_next("MKDIRS", *[Trouble.FORBIDDEN] * 3)
        said = cluster.log(b"header\n")
        size = cluster.wrote(b"one\n", urgent=True)
        await cluster.until(lambda: size in said)
        await cluster.until(lambda: cluster.file("events.1.jsonl") == b"header\none\n")


async def test_a_later_attempt_has_taken_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is confirmed any longer, so that no action runs; subscribers get the reason."""
    monkeypatch.setattr(event_log_replication, "_WAIT_SECONDS", 2.0)
    async with start_fake_cluster(tmp_path) as cluster:
        said = cluster.log(b"header\n")
        await cluster.until(lambda: said == [7])
        cluster.files.files[CLOSED] = cluster.files.files.pop(LOG)
        cluster.wrote(b"one\n", urgent=True)
        assert cluster.source._journal is not None
        with pytest.raises(AttemptSupersededError, match="later AM attempt"):
            await cluster.source._journal.watch()
        await asyncio.sleep(2.1)
        assert (said, cluster.files.files[CLOSED].content) == ([7], b"header\n")
        assert LOG not in cluster.files.files


async def test_a_later_attempt_is_noticed_although_the_store_does_not_answer_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log_replication, "STORE_BACKOFF", Backoff(first=0.01, most=0.01))
    async with start_fake_cluster(tmp_path) as cluster:
        said = cluster.log(b"header\n")
        await cluster.until(lambda: said == [7])
        cluster.files.files[CLOSED] = cluster.files.files.pop(LOG)
        cluster.files.fail_next("GETFILESTATUS", *[Trouble.NONSENSE] * 3)
        cluster.wrote(b"one\n", urgent=True)
        assert cluster.source._journal is not None
        with pytest.raises(AttemptSupersededError, match="later AM attempt"):
            await asyncio.wait_for(cluster.source._journal.watch(), 60)


async def test_a_suspended_am_waits_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A suspended AM may have a successor: a timeout that passed during the suspension does not waive waiting."""
    monkeypatch.setattr(event_log_replication, "_WAIT_SECONDS", 0.05)
    monkeypatch.setattr(event_log_replication, "_SUSPENDED_SECONDS", 0.05)
    async with start_fake_cluster(tmp_path, opens=False) as cluster:
        said = cluster.log(b"header\n")
        await cluster.until(lambda: said == [7])
        cluster.files.fail_next("APPEND", *[Trouble.SAFE_MODE] * 10_000)
        log = cluster.source._journal
        assert isinstance(log, event_log_replication.ReplicatedJournal)
        log._on_timeout(asyncio.get_running_loop().time() - 1.0)
        assert (said, log._timer is not None) == ([7], True)
        size = cluster.wrote(b"one\n", urgent=True)
        await cluster.until(lambda: size in said)


async def test_a_removed_log_does_not_end_the_job(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with start_fake_cluster(tmp_path, opens=False) as cluster:
        said = cluster.log(b"header\n")
        await cluster.until(lambda: said == [7])
        cluster.files.files.pop(LOG)
        size = cluster.wrote(b"one\n", urgent=True)
        await cluster.until(lambda: size in said)
        assert mentions(caplog.text, "event log")
        assert FakeFile not in map(type, [cluster.files.files.get(LOG)])
