"""A portal's jobs from Python: what `tony list`, `status`, `logs` and `advise` print of them, as objects."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import tony
from tests.jobs.fake_am import TWO_WORKERS, FakeAm, recorded, running
from tests.web.home_source import HomeSource
from tests.web.sample_jobs import LONG_AGO, keep
from tests.web.serving import served
from tony.client import python_api
from tony.errors import UnknownJobError, UserError
from tony.jobs.portal_client import client as portal_client
from tony.jobs.portal_client import view as portal_view
from tony.jobs.portal_client.known_portals import KeptToken, keep_token
from tony.model.ids import TaskId
from tony.model.job_report import JobReport
from tony.model.state_directory import Home
from tony.portal.access.login_credentials import TokenFile
from tony.protocol.client_messages import GetStacks, RestartJob
from tony.protocol.shared_messages import SetLogLevel, Stacks
from tony.web.app import create
from tony.web.server_context import ServerContext
from tony.web.user_authentication import AuthConfig, Authenticator

JOB = "local-20260101-000000-0a1b2c"
OTHER = "local-20260102-000000-0d0e0f"
REPORT = portal_client.PortalClient.fetch_report


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> TokenFile:
    return TokenFile(tmp_path_factory.mktemp("portal"))


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, tokens: TokenFile) -> Iterator[str]:
    """A portal of two jobs, one of which ben may see; it knows our own user, too."""
    home = Home(tmp_path_factory.mktemp("there"))
    folder = keep(home, JOB)
    (folder.logs / "worker-0.s1.t1.out").write_bytes(b"loss 2\nloss 1 \xff\nrest")
    keep(home, OTHER, user="eve", seed=0, name="letters", viewers=("ben",))
    app = create(
        ServerContext(
            HomeSource(home, "ann"), Authenticator(AuthConfig(key=tokens.load_key(), owner="ann", tokens=tokens))
        )
    )
    with served(app) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Our own home, with nothing in it."""
    monkeypatch.setenv("TONY_HOME", str(tmp_path / "home"))
    return Home(tmp_path / "home")


@pytest.fixture
def portal(address: str, here: Home) -> Iterator[tony.Portal]:
    with tony.Portal(f"{address}/") as portal:
        assert portal.address == address
        yield portal


def test_a_list_of_jobs(portal: tony.Portal) -> None:
    """Newest first, by what the portal can be asked for; what makes no sense is said at the call."""
    heads = [*portal.jobs()]
    assert {head.job for head in heads} == {JOB, OTHER}
    assert all(isinstance(head, tony.JobHead) for head in heads)
    assert len([*portal.jobs(most=1)]) == 1
    assert [head.job for head in portal.jobs(text="letters")] == [OTHER]
    assert [head.user for head in portal.jobs(user="eve", since=LONG_AGO, until="2030-01-01")] == ["eve"]
    states = {head.job: head.state for head in heads}
    assert JOB in [head.job for head in portal.jobs(state=states[JOB])]
    assert [*portal.jobs(state="active")] == []
    with pytest.raises(ValueError, match="state: 'odd' is not one of"):
        portal.jobs(state="odd")


def test_one_job(portal: tony.Portal) -> None:
    """Its status, its output, what could be better about it."""
    job = portal.job("0a1b2c")
    assert (job.id, repr(job)) == (JOB, f"tony.Portal({portal.address!r}).job({JOB!r})")
    report = job.status()
    assert (report.job, report.tasks[0].role) == (JOB, "worker")
    assert job.wait(timeout=0) == report
    assert [*job.logs("worker:0", stream="out")] == ["loss 2", "loss 1 \ufffd", "rest"]
    assert [*job.logs("worker:0", stream="out", tail=2, follow=True)] == ["loss 1 \ufffd", "rest"]
    assert "worker:0 | loss 2" in [*job.logs()]
    assert job.advice()["runs"] == [JOB]
    with pytest.raises(UserError, match="has no task 'unknown'"):
        list(job.logs("unknown"))
    with pytest.raises(ValueError, match="stream='odd'"):
        list(job.logs(stream="odd"))
    with pytest.raises(UnknownJobError, match="has no job 'unknown'"):
        portal.job("unknown")


class Living:
    """Has a job run for so many looks; then it has ended."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def __call__(self, there: portal_client.PortalClient, job: str, *, tasks: bool = True) -> JobReport:
        report = REPORT(there, job, tasks=tasks)
        self.looks -= 1
        return replace(report, state=tony.JobState.RUNNING, ended=None) if self.looks >= 0 else report


def test_a_job_that_runs(portal: tony.Portal, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is waited for, so long and no longer, and its output followed to its end; nothing comes twice."""
    monkeypatch.setattr(portal_view, "_POLL_SECONDS", 0.01)
    job = portal.job(JOB)

    def lives(looks: int) -> None:
        living = Living(looks)
        monkeypatch.setattr(portal_client.PortalClient, "fetch_report", lambda *told, **more: living(*told, **more))

    lives(3)
    assert job.wait().state.ended
    lives(1_000_000)
    with pytest.raises(TimeoutError, match=f"job {JOB} has not ended within 0 s; it continues"):
        job.wait(timeout=0)
    lives(3)
    assert [*job.logs("worker:0", stream="out", follow=True)] == ["loss 2", "loss 1 \ufffd", "rest"]


def test_a_failure_is_raised(portal: tony.Portal) -> None:
    (head,) = portal.jobs(state=tony.JobState.FAILED)
    job = portal.job(head.job)
    assert job.wait().state is tony.JobState.FAILED
    with pytest.raises(tony.ProgramError, match="printed nothing within 30 s"):
        job.wait(check=True)


def test_tokens(address: str, here: Home, tokens: TokenFile) -> None:
    """The one that is given, else the one that `tony login` keeps for just this portal."""
    text, _ = tokens.make("ben", None, "")
    with tony.Portal(address, token=text) as portal:
        assert [head.job for head in portal.jobs()] == [OTHER]
    keep_token(here, KeptToken(portal=address, user="ben", token=text), address)
    with tony.Portal(address) as portal:
        assert [head.job for head in portal.jobs()] == [OTHER]
        with pytest.raises(UnknownJobError):
            portal.job(JOB).status()
    with (
        tony.Portal(address, token="wrong") as portal,
        pytest.raises(UserError, match=f"tony login --portal {address}"),
    ):
        [*portal.jobs()]
    with pytest.raises(UserError, match="your token could be read"):
        [*tony.Portal("http://jobs.example.org", token=text).jobs()]


def test_threads(portal: tony.Portal) -> None:
    """Several ask at the same time, and each gets its own answers."""
    found: list[list[str]] = []
    barrier = threading.Barrier(4)

    def ask() -> None:
        barrier.wait(60)
        for text, job in (("letters", OTHER), ("digits", JOB)) * 5:
            found.append([head.job for head in portal.jobs(text=text) if head.job == job])
        portal.close()

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sorted(found) == sorted([[OTHER], [JOB]] * 20)


def test_editors_may_change_a_job(tmp_path: Path, tokens: TokenFile, here: Home) -> None:
    """The AM is given the editor's name; a viewer is refused."""
    there = Home(tmp_path / "there")
    folder, record = recorded(there, JOB, replace(TWO_WORKERS, editors=("mo",), viewers=("vic",)))
    master = FakeAm(folder, running(folder, record))
    master.standing = {"worker:0": Stacks(task="worker:0", text="train", how="py-spy", name="worker-0.s1.t1.stacks")}
    python_api.run(master.__aenter__())
    app = create(
        ServerContext(
            HomeSource(there, "ann"), Authenticator(AuthConfig(key=tokens.load_key(), owner="ann", tokens=tokens))
        )
    )
    try:
        with served(app) as port:
            url = f"http://127.0.0.1:{port}"
            with tony.Portal(url, tokens.make("mo")[0]) as portal:
                job = portal.job(JOB)
                job.restart()
                job.set_log_level("debug")
                assert [*job.stacks("worker:0")] == [master.standing["worker:0"]]
                assert ["" == each.text for each in job.stacks()] == [False, True]
                with pytest.raises(UserError, match="one of debug, info, warning, error is expected"):
                    job.set_log_level("loud")
            with tony.Portal(url, tokens.make("vic")[0]) as portal:
                job = portal.job(JOB)
                for do in (job.restart, lambda: [*job.stacks()], lambda: job.set_log_level("info")):
                    with pytest.raises(UserError, match=r"not change .*editors"):
                        do()
    finally:
        python_api.run(master.die())
    assert master.orders == [
        RestartJob(actor="mo"),
        SetLogLevel(level="debug", actor="mo"),
        *(GetStacks(actor="mo", task=TaskId("worker", n)) for n in (0, 0, 1)),
    ]
