"""A request for what the client has already is answered when it has changed."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from tests.support.waiting import wait_until
from tests.web.sample_jobs import as_peer, keep
from tests.web.test_am_server import Running
from tony.model.job_query import JobsPage, Query
from tony.model.job_report import JobReport
from tony.model.job_summary import head_of_report
from tony.model.state_directory import Home, JobFolder
from tony.web import held_requests
from tony.web.app import create
from tony.web.server_context import ServerContext
from tony.web.user_authentication import AuthConfig, Authenticator


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    return keep(Home(tmp_path))


class Hanging(Running):
    """A source of one job that hangs for longer at every request, alone in a list."""

    seconds = 60

    async def _how(self) -> JobReport:
        self.seconds += 1
        return replace(self._report, waiting=f"no progress for {self.seconds} s", stalled_task="worker:0")

    async def list_jobs(self, query: Query) -> JobsPage:
        return JobsPage(heads=(head_of_report(self._report),), total=1)


@asynccontextmanager
async def browser(folder: JobFolder, provider: type[Running] = Running) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the pages of a running job."""
    only = folder.job_id if provider is Running else ""
    context = ServerContext(provider(folder), Authenticator(AuthConfig(key=b"k" * 32, owner="ann")), only=only)
    transport = httpx.ASGITransport(as_peer(create(context), os.geteuid()))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8600") as client:
        yield client


def read_version(page: httpx.Response) -> str:
    assert page.status_code == 200
    found = re.search(r'<body data-live="([^"]+)">', page.text)
    assert found is not None
    return found[1]


async def test_an_open_page_waits_for_a_change(folder: JobFolder) -> None:
    """Of what it shows: another task's log leaves the request waiting."""
    log = folder.logs / "worker-0.s1.t1.out"
    async with browser(folder) as client:
        address = "/logs?task=worker:0"
        version = read_version(await client.get(address))
        held = asyncio.ensure_future(client.get(f"{address}&known={version}"))
        everything = asyncio.ensure_future(client.get(f"/logs?known={read_version(await client.get('/logs'))}"))
        with (folder.logs / "worker-1.s1.t1.out").open("a") as other:
            other.write("of another task\n")
        assert "of another task" in (await everything).text
        assert not held.done()
        with log.open("a") as written:
            written.write("a new line\n")
        answer = await held
        assert "a new line" in answer.text
        assert read_version(answer) != version
        assert "a new line" in (await client.get(f"{address}&known={version}")).text, "it has changed already"


async def test_only_some_requests_are_held(folder: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a proxy each occupies one of its threads; further ones are answered at once."""
    monkeypatch.setattr(held_requests, "_MAX_HELD_BEHIND_PROXY", 0)
    async with browser(folder) as client:
        version = read_version(await client.get("/"))
        assert read_version(await client.get(f"/?known={version}")) == version


async def test_a_request_is_answered_when_its_time_is_up(folder: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_requests, "_HOLD_SECONDS", 0.2)
    async with browser(folder) as client:
        version = read_version(await client.get("/"))
        assert read_version(await client.get(f"/?known={version}")) == version


async def test_the_end_of_a_job_ends_the_waiting(folder: JobFolder) -> None:
    """The answer is a page that follows nothing."""
    summary = folder.summary.read_bytes()
    async with browser(folder) as client:
        version = read_version(await client.get("/events"))
        held = asyncio.ensure_future(client.get(f"/events?known={version}"))
        await asyncio.sleep(0)
        folder.summary.write_bytes(summary)
        assert "data-live" not in (await held).text


async def test_a_hang_is_no_change_while_it_lasts(folder: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sentence contains a duration that grows."""
    async with browser(folder, Hanging) as client:
        address = f"/job/{folder.job_id}"
        version = read_version(await client.get(address))
        monkeypatch.setattr(held_requests, "_HOLD_SECONDS", 0.2)
        assert read_version(await client.get(f"{address}?known={version}")) == version


async def test_lists_of_jobs_count_as_held_requests(folder: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several that arrive together, too, those beyond the limit are answered at once."""
    monkeypatch.setattr(held_requests, "_MAX_HELD", 1)
    monkeypatch.setattr(held_requests, "_HOLD_SECONDS", 3600.0)
    async with browser(folder, Hanging) as client:
        addresses = ["/", f"/job/{folder.job_id}/events"]
        known = [f"{address}?known={read_version(await client.get(address))}" for address in addresses]
        requests = [asyncio.ensure_future(client.get(address)) for address in (*known, *known)]
        await wait_until(lambda: sum(request.done() for request in requests) == 3)
        [held] = [request for request in requests if not request.done()]
        held.cancel()
        await asyncio.wait([held])
