"""Tests of `tony.jobs.portal_client.view`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from tests.jobs.fake_am import JOB, TWO_WORKERS, recorded, running
from tony.jobs.log_files import LogFileInfo, Selection
from tony.jobs.portal_client import view
from tony.jobs.portal_client.client import PortalClient
from tony.jobs.portal_client.view import PortalJobView
from tony.model.ids import TaskId
from tony.model.job_report import JobReport
from tony.model.state_directory import Home
from tony.model.states import JobState

_LOG = "worker-0.s1.t1.out"


class FakePortal:
    """A portal at which one log has other content at each poll."""

    def __init__(self, report: JobReport, contents: list[bytes]) -> None:
        self._report = report
        self._contents = contents

    def fetch_report(self, job_id: str, *, tasks: bool) -> JobReport:
        return self._report if len(self._contents) > 1 else replace(self._report, state=JobState.SUCCEEDED)

    def fetch_logs(self, job_id: str, task: TaskId) -> tuple[list[LogFileInfo], str]:
        if len(self._contents) > 1:
            self._content = self._contents.pop(0)
        else:
            self._content = self._contents[0]
        size = len(self._content)
        return [LogFileInfo(name=_LOG, task="worker:0", session=1, try_=1, stream="out", size=size)], ""

    def fetch_log_times(self, job_id: str, name: str, offset: int, most: int) -> list[tuple[int, int]]:
        """Every ten bytes another second."""
        first = offset // 10 * 10
        return [(place - offset, 100 * (place // 10) + 1) for place in range(first, offset + most, 10)]

    def fetch_log_bytes(self, job_id: str, name: str, offset: int, most: int) -> bytes:
        return self._content[offset : offset + most]


async def test_a_log_that_is_rotated_while_it_is_followed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines printed after the rotation are shown, and a notice says that some are missing."""
    monkeypatch.setattr(view, "_POLL_SECONDS", 0)
    folder, record = recorded(home, spec=TWO_WORKERS)
    report = running(folder, record)
    contents = [b"one\ntwo\nthree\n", b"three\n", b"three\nfour\n"]
    notices: list[str] = []
    portal: Any = FakePortal(replace(report, tasks=report.tasks[:1]), contents)
    job = PortalJobView(cast(PortalClient, portal), JOB, notices.append)
    output = [line async for lines in job.output(Selection(), follow=True) for line in lines]
    assert [line.data for line in output] == [b"one", b"two", b"three", b"four"]
    assert len(notices) == 1
    assert _LOG in notices[0]


async def test_lines_have_times_and_may_begin_at_one(home: Home) -> None:
    """The times are those of the portal, and what is older is not even fetched."""
    folder, record = recorded(home, spec=TWO_WORKERS)
    report = running(folder, record)
    text = b"".join(b"line%05d\n" % number for number in range(20_000))
    portal = FakePortal(replace(report, tasks=report.tasks[:1]), [text])
    fetched: list[int] = []
    read = portal.fetch_log_bytes

    def fetch(job_id: str, name: str, offset: int, most: int) -> bytes:
        fetched.append(most)
        return read(job_id, name, offset, most)

    portal.fetch_log_bytes = fetch  # type: ignore[method-assign]
    job = PortalJobView(cast(PortalClient, cast(Any, portal)), JOB)
    selection = Selection(has_times=True, since=19_997.0)
    lines = [line async for lines in job.output(selection) for line in lines]
    assert [(line.text, line.at) for line in lines] == [
        (f"line{number}", number + 0.01) for number in range(19_997, 20_000)
    ]
    assert sum(fetched) < len(text) / 2
