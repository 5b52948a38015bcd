"""Waste of the jobs that a user may see."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.advice.fleet import simulate, write
from tests.advice.jobs import memory_over_asked
from tests.web.home_source import HomeSource
from tests.web.sample_jobs import TEST_PROXY, fetch
from tony.history.event_log import segments
from tony.model.state_directory import Home
from tony.web import job_advice
from tony.web.app import create
from tony.web.authorization import AuthMethod, User
from tony.web.job_advice import compute_waste
from tony.web.server_context import ServerContext
from tony.web.user_authentication import AuthConfig, Authenticator


@pytest.fixture
def source(tmp_path: Path) -> HomeSource:
    """A home with three runs of ann's, and one of bob's."""
    plan = memory_over_asked(Random(0))
    for number in range(4):
        simulated = simulate(plan, Random(number), number)
        if number == 3:
            simulated.record = replace(simulated.record, user="bob")
            simulated.report = replace(simulated.report, user="bob")
        write(Home(tmp_path), simulated)
    return HomeSource(Home(tmp_path), "ann")


def make_user(name: str) -> User:
    """One who may see their own jobs."""
    return User(name=name, how=AuthMethod.TOKEN, token="t", earlier="")


async def test_only_visible_jobs_are_summed_up(source: HomeSource) -> None:
    """By week and user; a job without events counts as unknown; older ones than requested are left out."""
    mine = await compute_waste(make_user("ann"), source, since=0.0)
    assert [("ann", "2023-W46", 3)] == [(week.user, week.week, week.jobs) for week in mine.weeks]
    assert 0 < mine.weeks[0].wasted.gb_hours < mine.weeks[0].held.gb_hours
    assert (3, 0, 0, False) == (mine.jobs, mine.unknown, mine.left, mine.more)
    assert 1 == (await compute_waste(make_user("bob"), source, since=0.0)).jobs
    assert 0 == (await compute_waste(make_user("cem"), source, since=0.0)).jobs
    assert 0 == (await compute_waste(make_user("ann"), source)).jobs


async def test_a_slow_computation_continues_with_the_next_request(
    source: HomeSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results are kept; jobs without events are skipped."""
    job = "local-20260101-000000-abcdef"
    segments(Home(tmp_path).job(job).path)[0].unlink()
    monkeypatch.setattr(job_advice, "_TIME_LIMIT_SECONDS", -1.0)
    assert (0, 0, 3) == _counts(await compute_waste(make_user("ann"), source, since=0.0))
    monkeypatch.setattr(job_advice, "_TIME_LIMIT_SECONDS", 60.0)
    assert (2, 1, 0) == _counts(await compute_waste(make_user("ann"), source, since=0.0))
    monkeypatch.setattr(job_advice, "_TIME_LIMIT_SECONDS", -1.0)
    assert (2, 1, 0) == _counts(await compute_waste(make_user("ann"), source, since=0.0))


def _counts(found: job_advice.UnusedHours) -> tuple[int, int, int]:
    return found.jobs, found.unknown, found.left


def test_the_page(source: HomeSource) -> None:
    """Says whose hours they were, on what they went, and which job to look at; only to who may see it."""
    terms = AuthConfig(key=b"k" * 32, owner="ann", proxies=(TEST_PROXY,))
    app = create(ServerContext(source, Authenticator(terms)))

    def ask(user: str, query: str = "?weeks=520") -> str:
        answer = fetch(app, f"/waste{query}", client="10.0.0.1", headers={"x-user": user})
        assert 200 == answer.status_code
        return answer.text

    mine = ask("ann")
    for words in ("2023-W46", "never used", "GB-hours", "3 jobs included", "/advice"):
        assert words in mine
    assert "bob" not in mine
    told = fetch(app, "/api/v1/waste?weeks=520", client="10.0.0.1", headers={"x-user": "ann"}).json()
    assert [("ann", "2023-W46", 3)] == [(week["user"], week["week"], week["jobs"]) for week in told["weeks"]]
    assert set(told["weeks"][0]["parts"]) >= {"unused"}
    assert "1 job included" in ask("bob")
    assert "No finished jobs" in ask("cem")
    assert "No finished jobs" in ask("ann", "")
    assert 'href="./waste"' in fetch(app, "/", client="10.0.0.1", headers={"x-user": "ann"}).text
