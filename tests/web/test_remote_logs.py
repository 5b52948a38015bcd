"""Pages of a job on other machines: its output is fetched on demand, and its cluster's own pages are linked."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.jobs.remote.test_log_fetcher import Far as Scheduler
from tests.jobs.remote.test_log_fetcher import FarScheduler
from tests.web.home_source import HomeSource
from tests.web.sample_jobs import as_peer, fetch, keep
from tony.errors import SchedulerError
from tony.history.job_record import read_summary
from tony.jobs.remote import remote_job_files
from tony.model.ids import TaskId
from tony.model.log_name import LogName
from tony.model.state_directory import Home
from tony.model.web_link import WebLink
from tony.schedulers import registry
from tony.web.app import create
from tony.web.server_context import ServerContext
from tony.web.user_authentication import AuthConfig, Authenticator

JOB = "local-20260101-000000-0a1b2c"


class Cluster(Scheduler):
    """With pages of its own."""

    async def links(self, job_id: str, *, ended: bool) -> tuple[WebLink, ...]:
        return (WebLink(label="ResourceManager", href=f"http://rm:8088/cluster/app/{job_id}?a=<b>"),)

    async def container_links(
        self, job_id: str, containers: Mapping[str, str], *, user: str, ended: bool
    ) -> dict[str, tuple[WebLink, ...]]:
        return {each: (WebLink(label="log server", href=f"http://{host}/{each}"),) for each, host in containers.items()}


def test_output_of_a_remote_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing output is reported with its reason, on the task's page, the log's and in the API; later it is there,
    whole to its last line."""
    cluster = FarScheduler.theirs = Cluster()
    monkeypatch.setitem(registry._BUILT_IN, "far", "tests.jobs.remote.test_log_fetcher:FarScheduler")
    monkeypatch.setattr(remote_job_files, "_REPEAT_SECONDS", 0.0)
    home = Home(tmp_path)
    folder = keep(home, JOB, scheduler="far")
    for path in folder.logs.iterdir():
        path.unlink()
    report = read_summary(folder)
    assert report is not None
    task = report.tasks[0].task
    app = as_peer(
        create(ServerContext(HomeSource(home, "ann"), Authenticator(AuthConfig(key=b"k" * 32, owner="ann")))),
        os.geteuid(),
    )
    cluster.error = SchedulerError("it was <removed>: see Y")
    for at in (f"/job/{JOB}/logs?task={task}", f"/job/{JOB}/task/{task}"):
        assert "it was &lt;removed&gt;: see Y" in fetch(app, at).text
    listed = fetch(app, f"/api/v1/jobs/{JOB}/logs?task={task}").json()
    assert listed == {"logs": [], "missing": "some output may be missing: it was <removed>: see Y"}

    cluster.error = None
    lines = b"".join(b"line %06d\n" % number for number in range(20_000))
    cluster.shows = {LogName(*TaskId.parse(task), 1, 1, "out").file: (b"", lines)}
    page = fetch(app, f"/job/{JOB}/logs?task={task}").text
    assert "line 019999" in page
    assert "is missing" not in page
    assert "line 010000" in fetch(app, f"/job/{JOB}/logs?task={task}&text=10000").text
    assert (
        fetch(app, f"/api/v1/jobs/{JOB}/logs/{LogName(*TaskId.parse(task), 1, 1, 'out').file}/download").content
        == lines
    )


def test_links_to_the_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On each page of the job, and of a task those of each container that it had."""
    FarScheduler.theirs = Cluster()
    monkeypatch.setitem(registry._BUILT_IN, "far", "tests.jobs.remote.test_log_fetcher:FarScheduler")
    home = Home(tmp_path)
    folder = keep(home, JOB, scheduler="far")
    report = read_summary(folder)
    assert report is not None
    app = as_peer(
        create(ServerContext(HomeSource(home, "ann"), Authenticator(AuthConfig(key=b"k" * 32, owner="ann")))),
        os.geteuid(),
    )
    href = f'href="http://rm:8088/cluster/app/{JOB}?a=&lt;b&gt;" rel="noreferrer"'
    for part in ("", "/tasks", "/events"):
        assert href in fetch(app, f"/job/{JOB}{part}").text
    task = next(each for each in report.tasks if each.try_)
    shown = html.unescape(fetch(app, f"/job/{JOB}/task/{task.task}").text)
    assert f'<a href="http://{task.host}/' in shown
    assert ">log server</a>" in shown
    told = fetch(app, f"/api/v1/jobs/{JOB}/links?task={task.task}").json()
    assert ["ResourceManager"] == [link["label"] for link in told["links"]]
    assert task.host == told["containers"][0]["host"]
    assert [] == fetch(app, f"/api/v1/jobs/{JOB}/links").json()["containers"]
