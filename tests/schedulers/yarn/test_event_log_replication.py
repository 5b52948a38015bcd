"""The event log's way to HDFS: what is said to be in safety, and when nobody waits for it any longer."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from tests.facts import mentions
from tests.schedulers.yarn import fake_cluster as scene
from tests.schedulers.yarn.fake_cluster import playing
from tests.support.hadoop.fake_webhdfs import PlayedFile, Trouble
from tony.errors import AttemptSupersededError
from tony.schedulers.job_store import event_log_replication

LOG, CLOSED = f"{scene.FOLDER}/events.1.jsonl", f"{scene.FOLDER}/events.1.closed.jsonl"


async def test_urgent_is_there_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits does so for one write, however seldom the others are; what is said to be safe is in HDFS."""
    monkeypatch.setattr(event_log_replication, "_WRITE_SECONDS", 1000.0)
    async with playing(tmp_path, opens=False) as played:
        said = played.log(b"header\n")
        played.wrote(b"one\n")
        size = played.wrote(b"two\n", urgent=True)
        await played.until(lambda: size in said)
        assert played.file("events.1.jsonl") == b"header\none\ntwo\n"
        assert said == sorted(said)


async def test_nobody_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many small writes of the log are few of the file's; it is said of them, too."""
    monkeypatch.setattr(event_log_replication, "_WRITE_SECONDS", 0.2)
    appends = 0

    def count(_: str) -> None:
        nonlocal appends
        appends += 1

    async with playing(tmp_path, opens=False) as played:
        said = played.log(b"header\n")
        played.files.before("APPEND", count)
        for number in range(20):
            size = played.wrote(b"%d\n" % number)
            await asyncio.sleep(0.005)
        await played.until(lambda: said and said[-1] == size)
        assert appends < 10


async def test_a_job_does_not_hang_on_hdfs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """While it takes nothing the wait is given up, at first after a moment and then at once; it catches up later."""
    monkeypatch.setattr(event_log_replication, "_WAIT_SECONDS", 0.1)
    caplog.set_level(logging.INFO, logger="tony")
    async with playing(tmp_path, opens=False) as played:
        said = played.log(b"header\n")
        await played.until(lambda: played.file("events.1.jsonl") == b"header\n")
        played.files.fail_next("APPEND", *[Trouble.SAFE_MODE] * 10_000)
        first = played.wrote(b"one\n")  # a report is acknowledged as well, although nobody hurries
        await played.until(lambda: first in said)
        second = played.wrote(b"two\n", urgent=True)
        await played.until(lambda: second in said)
        assert played.file("events.1.jsonl") == b"header\n"
        assert "has made no progress for" in caplog.text
        played.files.troubles_over()
        await played.until(lambda: "is complete again" in caplog.text)
        assert played.file("events.1.jsonl") == b"header\none\ntwo\n"
        last = played.wrote(b"three\n", urgent=True)
        await played.until(lambda: last in said)
        await played.until(lambda: played.file("events.1.jsonl") == b"header\none\ntwo\nthree\n")


async def test_it_cannot_even_be_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first effects wait no longer than others; all is there when HDFS is."""
    monkeypatch.setattr(event_log_replication, "_WAIT_SECONDS", 0.1)
    async with playing(tmp_path, opens=False) as played:
        played.files.fail_next("MKDIRS", *[Trouble.FORBIDDEN] * 3)
        said = played.log(b"header\n")
        size = played.wrote(b"one\n", urgent=True)
        await played.until(lambda: size in said)
        await played.until(lambda: played.file("events.1.jsonl") == b"header\none\n")


async def test_a_later_attempt_has_taken_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing more is said to be in safety, so that nothing is done; whoever watches hears why."""
    monkeypatch.setattr(event_log_replication, "_WAIT_SECONDS", 0.3)
    async with playing(tmp_path) as played:
        said = played.log(b"header\n")
        await played.until(lambda: said == [7])
        played.files.files[CLOSED] = played.files.files.pop(LOG)
        played.wrote(b"one\n", urgent=True)
        with pytest.raises(AttemptSupersededError, match="later AM attempt"):
            await played.source.watch()
        await asyncio.sleep(0.4)
        assert (said, played.files.files[CLOSED].content) == ([7], b"header\n")
        assert LOG not in played.files.files


async def test_whoever_slept_waits_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A master that was stopped for long may have a successor: that its time is over while it slept proves nothing."""
    monkeypatch.setattr(event_log_replication, "_WAIT_SECONDS", 0.05)
    monkeypatch.setattr(event_log_replication, "_SUSPENDED_SECONDS", 0.05)
    async with playing(tmp_path, opens=False) as played:
        said = played.log(b"header\n")
        await played.until(lambda: said == [7])
        played.files.fail_next("APPEND", *[Trouble.SAFE_MODE] * 10_000)
        log = played.source._journal
        assert isinstance(log, event_log_replication.ReplicatedJournal)
        log._on_timeout(asyncio.get_running_loop().time() - 1.0)
        assert (said, log._timer is not None) == ([7], True)
        size = played.wrote(b"one\n", urgent=True)
        await played.until(lambda: size in said)


async def test_somebody_has_removed_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """That is no reason to end a job."""
    async with playing(tmp_path, opens=False) as played:
        said = played.log(b"header\n")
        await played.until(lambda: said == [7])
        played.files.files.pop(LOG)
        size = played.wrote(b"one\n", urgent=True)
        await played.until(lambda: size in said)
        assert mentions(caplog.text, "event log")
        assert PlayedFile not in map(type, [played.files.files.get(LOG)])
