"""`/metrics` for Prometheus: what runs and may be seen, as text; for browsers, where one job is served, its charts."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.types import ASGIApp

from tests.history.test_prometheus_text import parsed, value
from tests.web.home_source import HomeSource
from tests.web.sample_jobs import TEST_PROXY, as_peer, fetch, keep
from tony.errors import RecordError
from tony.history.job_record import read_summary
from tony.model.job_query import JobsPage, Query
from tony.model.state_directory import Home
from tony.portal.indexed_jobs import PortalView
from tony.web.app import create
from tony.web.server_context import ServerContext
from tony.web.user_authentication import AuthConfig, Authenticator

JOB, OTHER = "local-20260101-000000-0a1b2c", "local-20260102-000000-0a1b2c"


class Running(HomeSource):
    """A home all of whose jobs are taken to run: the records that tests have are of jobs that have ended."""

    async def list_jobs(self, query: Query) -> JobsPage:
        assert query.state == "active"
        return await super().list_jobs(replace(query, state=""))

    async def find_job(self, job: str) -> PortalView | None:
        if job == OTHER and self.damaged:
            raise RecordError(f"the record of {job} cannot be copied")
        return None if job == OTHER and self.without else await super().find_job(job)

    without = damaged = False


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    keep(home, JOB, name='say "hi"\\')
    keep(home, OTHER, user="bob", seed=4)
    return home


def portal(
    home: Home, uid: int | None = None, only: str = "", *, without: bool = False, damaged: bool = False
) -> ASGIApp:
    """A portal for its owner, or for another user."""
    terms = AuthConfig(key=b"k" * 32, owner="ann", proxies=(TEST_PROXY,))
    source = Running(home, "ann")
    source.without, source.damaged = without, damaged
    return as_peer(create(ServerContext(source, Authenticator(terms), only=only)), os.geteuid() if uid is None else uid)


def test_metrics_of_running_jobs(home: Home) -> None:
    """Each job with its metrics, as Prometheus reads them."""
    answer = fetch(portal(home), "/metrics", headers={"Accept": "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    found = parsed(answer.text)
    assert value(found, "tony_job_info", job_id=JOB, name='say "hi"\\') == 1
    assert value(found, "tony_job_info", job_id=OTHER, user="bob") == 1
    assert value(found, "tony_task_cpu_cores", job_id=JOB) == 2.5


def test_a_job_that_cannot_be_opened_is_left_out(home: Home) -> None:
    answer = fetch(portal(home, damaged=True), "/metrics")
    assert answer.status_code == 200
    assert JOB in answer.text
    assert OTHER not in answer.text


def test_metrics_need_authentication(home: Home) -> None:
    """A user sees only metrics of jobs that they may see; an unauthenticated one gets nothing."""
    answer = fetch(portal(home), "/metrics", headers={"X-User": "bob"}, client="10.0.0.1")
    assert answer.status_code == 200
    assert OTHER in answer.text
    assert JOB not in answer.text
    refused = fetch(portal(home, uid=os.geteuid() + 12345), "/metrics")
    assert refused.status_code in (401, 403)
    assert JOB not in refused.text


def test_one_job_alone(home: Home) -> None:
    """A program gets numbers; a browser the charts of the same address."""
    app = portal(home, only=JOB)
    found = parsed(fetch(app, "/metrics").text)
    assert {dict(labels)["job_id"] for _, labels in found} == {JOB}
    page = fetch(app, "/metrics", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert page.headers["content-type"].startswith("text/html")


def test_unreadable_jobs_are_left_out(home: Home) -> None:
    """A job that was removed meanwhile, damaged metrics, and a damaged job directory."""
    home.job(JOB).metrics.write_bytes(b"no database")
    text = fetch(portal(home, without=True), "/metrics").text
    assert OTHER not in text
    found = parsed(text)
    assert value(found, "tony_job_info", job_id=JOB) == 1
    assert not any(name.startswith("tony_task") for name, _ in found)
    assert read_summary(home.job(JOB))
