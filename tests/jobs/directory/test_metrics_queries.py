"""Metrics of another user's job are read within the limits of that job's lane."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from tests.web.sample_jobs import keep
from tony.errors import OverloadedError
from tony.history.metrics_reader import Metrics
from tony.jobs.directory.view import OTHERS, DirectoryJobView
from tony.linux.thread_pools import set_user
from tony.model.job_report import JobReport
from tony.model.layout import Home


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
