"""The event log of a job elsewhere comes from where it lies, even if its scheduler is away."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.jobs.fake_am import recorded
from tests.jobs.recording_scheduler import Desk, Office
from tony.errors import SchedulerError
from tony.history.event_log import segments
from tony.jobs.remote.remote_job_sync import refresh
from tony.model.job_spec import JobSpec
from tony.model.layout import Home, JobFolder
from tony.schedulers import registry
from tony.schedulers.client_interface import ApplicationStatus
from tony.schedulers.local.capabilities import CAPABILITIES

JOB = "application_1795000000000_0001"


class Far(Desk):
    """Its jobs run elsewhere, and it is away.

    Attributes:
        hangs: it says nothing, instead of failing.
        has_log: whether there is a record where it belongs.
    """

    capabilities = replace(CAPABILITIES, same_host=False)
    hangs = False
    has_log = True

    async def application_status(self, job_id: str) -> ApplicationStatus | None:
        if self.hangs:
            await asyncio.Event().wait()
        raise SchedulerError("no ResourceManager answers")

    async def fetch(self, folder: JobFolder) -> None:
        if self.has_log:
            (folder.path / "events.1.jsonl").write_text("{}\n")


@pytest.fixture
def far(home: Home, monkeypatch: pytest.MonkeyPatch) -> Far:
    """One job of it is recorded here."""
    far = Far()
    monkeypatch.setattr(registry, "load", lambda name: Office(far))
    recorded(home, JOB, JobSpec(command="x", scheduler="yarn"))
    return far


@pytest.mark.parametrize("hangs", [False, True])
async def test_the_record_needs_no_scheduler(home: Home, far: Far, hangs: bool) -> None:
    """Whether it fails or says nothing at all."""
    far.hangs = hangs
    await asyncio.wait_for(refresh(home, JOB), 20)
    assert 1 == len(segments(home.job(JOB).path))


async def test_without_a_job_directory_the_error_is_reported(home: Home, far: Far) -> None:
    """There is no local copy, and none can be fetched."""
    far.has_log = False
    with pytest.raises(SchedulerError, match="no ResourceManager answers"):
        await refresh(home, JOB)
