"""A job seen through its directory: its events, in order and once; its metrics, within the limits of its lane."""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing
from pathlib import Path

import pytest

from tests.jobs.fake_am import JOB, FakeAm, recorded, running, succeeded
from tests.web.sample_jobs import keep
from tony.core.events import Queued
from tony.errors import OverloadedError
from tony.history.event_log import FORMAT, VERSION, Header, LogWriter
from tony.history.metrics_reader import Metrics
from tony.jobs.directory.view import DirectoryJobView
from tony.linux.thread_pools import OTHERS, set_user
from tony.model.job_report import JobReport
from tony.model.state_directory import Home


async def test_new_events_are_followed(home: Home) -> None:
    """Following ends with the job, and not before the last event."""
    folder, record = recorded(home)
    header = Header(format=FORMAT, version=VERSION, job=JOB, attempt=1, settings="")
    writer = LogWriter(folder.events(1), header)
    async with FakeAm(folder, running(folder, record)) as master:
        writer.append(Queued(reason="a"), 1.0, 1.0)
        writer.flush()
        async with aclosing(DirectoryJobView.from_home(home, JOB).events(follow=True)) as stream:
            assert (await anext(stream)).event == Queued(reason="a")
            waiting = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(0)
            writer.append(Queued(reason="b"), 2.0, 2.0)
            writer.flush()
            assert (await waiting).event == Queued(reason="b")
            writer.append(Queued(reason="c"), 3.0, 3.0)
            writer.close()
            await master.finish(succeeded(folder, record))
            assert [entry.event async for entry in stream] == [Queued(reason="c")]


async def unused_status() -> JobReport:
    raise AssertionError


def test_a_slow_query_ends_with_the_timeout_of_the_lane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OTHERS, "timeout", 0.1)
    view = DirectoryJobView(keep(Home(tmp_path)), unused_status, is_own=False)
    unblocked = threading.Event()

    def wait(_: Metrics) -> None:
        unblocked.wait()

    async def query() -> None:
        set_user("ann")
        await view.query_metrics(wait)

    try:
        with pytest.raises(OverloadedError, match="directory of another user's job"):
            asyncio.run(query())
    finally:
        unblocked.set()


def test_a_query_of_missing_metrics_is_not_run(tmp_path: Path) -> None:
    folder = keep(Home(tmp_path))
    folder.metrics.unlink()
    assert asyncio.run(DirectoryJobView(folder).query_metrics(lambda metrics: metrics.tasks())) is None
