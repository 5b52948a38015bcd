"""Checks of a cluster: with a fake ResourceManager, a NameNode that is not there, and a web server with a clock."""

from __future__ import annotations

import asyncio
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.support.hadoop.fake_applications import FakeApplications
from tests.support.hadoop.ipc_server import FakeIpcServer
from tests.support.http_servers import LocalServer, QuietHandler
from tony import clock
from tony.errors import NoClusterError
from tony.hadoop.configuration import Configuration
from tony.model.health_check import Health, HealthCheck
from tony.model.state_directory import Home
from tony.schedulers.yarn.client import health_checks
from tony.schedulers.yarn.client.health_checks import check_cluster
from tony.schedulers.yarn.cluster_clients import ClusterClients
from tony.schedulers.yarn.settings import YarnSettings

NOWHERE = "127.0.0.1:1"


class WebPages(QuietHandler, BaseHTTPRequestHandler):
    """Answers with the time, as every web server does."""

    def do_HEAD(self) -> None:
        self.send_response(401)
        self.end_headers()


async def check(monkeypatch: pytest.MonkeyPatch, folder: Path, manager: str, web: str) -> dict[str, HealthCheck]:
    given = {
        "fs.defaultFS": f"hdfs://{NOWHERE}",
        "dfs.namenode.http-address": NOWHERE,
        "yarn.resourcemanager.address": manager,
        "yarn.resourcemanager.webapp.address": web,
    }
    cluster = ClusterClients.from_configuration(Configuration.load(None, {}, given=given), {"HADOOP_USER_NAME": "ann"})
    monkeypatch.setattr(health_checks, "find_cluster", lambda *_: cluster)
    monkeypatch.setattr(health_checks, "_TIMEOUT_SECONDS", 2.0)
    checks = await asyncio.to_thread(lambda: list(check_cluster(YarnSettings(), Home(folder))))
    return {each.name: each for each in checks}


async def test_a_cluster_that_responds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of it: YARN is there, HDFS is not."""
    async with FakeIpcServer() as server:
        FakeApplications().serve(server)
        with LocalServer(WebPages) as web:
            address = f"{server.address.host}:{server.address.port}"
            checks = await check(monkeypatch, tmp_path, address, web.host_and_port)
    assert checks["ResourceManager"].state is Health.OK
    assert checks["clock"].state is Health.OK
    assert checks["HDFS"].is_broken


async def test_a_cluster_that_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = await check(monkeypatch, tmp_path, NOWHERE, NOWHERE)
    assert checks["ResourceManager"].is_broken
    assert checks["clock"].state is Health.UNKNOWN


@pytest.mark.parametrize(("ahead", "is_broken"), [(60.0, False), (-400.0, True)])
async def test_a_wrong_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: float, is_broken: bool) -> None:
    now = clock.wall()
    monkeypatch.setattr(clock, "wall", lambda: now + ahead)
    with LocalServer(WebPages) as web:
        found = (await check(monkeypatch, tmp_path, NOWHERE, web.host_and_port))["clock"]
    assert (found.state, found.is_broken) == (Health.MISSING, is_broken)
    assert ("ahead" if ahead > 0 else "behind") in found.detail


def test_no_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not needed."""

    def refuse(*_: object) -> ClusterClients:
        raise NoClusterError("none")

    monkeypatch.setattr(health_checks, "find_cluster", refuse)
    (found,) = check_cluster(YarnSettings(), Home(tmp_path))
    assert (found.state, found.is_broken) == (Health.MISSING, False)
