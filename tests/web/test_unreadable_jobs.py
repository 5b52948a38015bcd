"""A job whose record cannot be opened: those who may not see it learn nothing, and no other job suffers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.web.home_source import HomeSource
from tests.web.sample_jobs import TEST_PROXY, as_peer, fetch, keep
from tony.errors import RecordError
from tony.model.state_directory import Home
from tony.portal.indexed_jobs import PortalView
from tony.web.app import create
from tony.web.server_context import ServerContext
from tony.web.user_authentication import AuthConfig, Authenticator

JOB, DAMAGED = "local-20260102-000000-0a1b2c", "local-20260101-000000-0a1b2c"


class Damaged(HomeSource):
    """One of its records cannot be copied."""

    async def find_job(self, job: str) -> PortalView | None:
        if job == DAMAGED:
            raise RecordError(f"the record of {job} cannot be copied")
        return await super().find_job(job)


@pytest.fixture
def source(tmp_path: Path) -> Damaged:
    for job in (JOB, DAMAGED):
        keep(Home(tmp_path), job)
    return Damaged(Home(tmp_path), "ann")


@pytest.mark.parametrize("address", [f"/job/{DAMAGED}", f"/api/v1/jobs/{DAMAGED}", f"/compare?job={DAMAGED}"])
def test_only_permitted_users_see_that_a_job_is_damaged(source: Damaged, address: str) -> None:
    """For others it does not exist."""
    app = as_peer(
        create(ServerContext(source, Authenticator(AuthConfig(key=b"k" * 32, owner="ann", proxies=(TEST_PROXY,))))),
        os.geteuid(),
    )
    answer = fetch(app, address, headers={"X-User": "bob"}, client="10.0.0.1")
    assert answer.status_code == 404
    assert "cannot be copied" not in answer.text
    assert "cannot be copied" in fetch(app, address).text


def test_advice_skips_an_unreadable_job(source: Damaged) -> None:
    """It is an earlier run of the same job."""
    app = as_peer(create(ServerContext(source, Authenticator(AuthConfig(key=b"k" * 32, owner="ann")))), os.geteuid())
    answer = fetch(app, f"/api/v1/jobs/{JOB}/advice")
    assert answer.status_code == 200
    assert "cannot be copied" not in answer.text
