"""A job's pages next to its AM: which clients they trust, what they leave to the portal, and that they query the AM."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from starlette import applications
from starlette.types import ASGIApp

import tony
from tests.web.sample_jobs import fetch, keep
from tony.am.page_process import _CODE
from tony.history.job_record import read_summary
from tony.jobs.directory.view import DirectoryJobView
from tony.model.job_query import JobsPage, Query
from tony.model.job_report import JobReport
from tony.model.state_directory import Home, JobFolder
from tony.model.states import JobState
from tony.web import am_server
from tony.web.am_server import AmServer, PageServerConfig, _derive_origins, _reverse_lookup, build_auth_config
from tony.web.app import create
from tony.web.server_context import ServerContext
from tony.web.user_authentication import Authenticator

RM = "10.0.0.1"
CONFIG = PageServerConfig(
    folder="", socket=0, user="ann", key="00" * 32, peers=(RM,), origins=("http://rm.example.org:8088",), vouches=True
)


class Running:
    """A source of one job that runs: the records that tests have are of jobs that have ended."""

    title = "one"

    def __init__(self, folder: JobFolder) -> None:
        ended = read_summary(folder)
        assert ended is not None
        folder.summary.unlink()
        self._folder = folder
        self._report = replace(ended, state=JobState.RUNNING, exit_code=None, ended=None, failure=None, user="ann")

    async def list_jobs(self, query: Query) -> JobsPage:
        raise AssertionError("one job is served alone")

    async def find_job(self, job: str) -> DirectoryJobView:
        return DirectoryJobView(self._folder, self._how)

    async def _how(self) -> JobReport:
        return self._report


@pytest.fixture
def app(tmp_path: Path) -> ASGIApp:
    folder = keep(Home(tmp_path), editors=("mo", "@ml"))
    return create(ServerContext(Running(folder), Authenticator(build_auth_config(CONFIG)), only=folder.job_id))


def shown(app: ASGIApp, user: str) -> str:
    """The job's page for a user that the proxy names, or for an anonymous one."""
    answer = fetch(app, "/", client=RM, headers={"Cookie": f"proxy-user={user}"} if user else {})
    assert answer.status_code == 200
    return answer.text


def test_editors_have_buttons(app: ASGIApp) -> None:
    for user in ("ann", "mo"):
        text = shown(app, user)
        assert 'data-do="restart"' in text
        assert "tony kill" not in text


def test_a_stall_has_a_card_with_buttons(tmp_path: Path) -> None:
    folder = keep(Home(tmp_path))
    running = Running(folder)
    task = running._report.tasks[-1].task
    sentence = f"o progress for 5 m 10 s: {task} has not joined all_reduce"
    running._report = replace(running._report, waiting=f"n{sentence}", stalled=True, stalled_task=task)
    context = ServerContext(running, Authenticator(build_auth_config(CONFIG)), only=folder.job_id)
    text = shown(create(context), "ann")
    card = text[text.index('id="h-stall"') : text.index('id="standing"')]
    assert f">N{sentence}</p>" in card
    assert re.search(rf'href="[^"]*{task}#h-stacks">Stack traces<', card)
    assert 'data-do="restart"' in card
    assert '<span class="badge s-stalled">running, stalled</span>' in text
    assert "tony stacks" not in text
    assert "<button data-do" not in shown(create(context), "bob")


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ("bob", "identifies you as bob"),
        ("b%3Ci%3Eb", "identifies you as b&lt;i&gt;b"),
        ("", "does not identify you"),
    ],
)
def test_other_users_read_who_may(app: ASGIApp, user: str, said: str) -> None:
    """The page also says how it is done otherwise; without security a ResourceManager authenticates no user."""
    text = re.sub(r"</?bd?i?>", "", shown(app, user))
    assert "<button data-do" not in text
    assert f"{said}." in text
    assert "by ann, mo, @ml." in text
    assert re.search(r"<code>tony kill local-\S+</code>", text)


def test_logs_are_followed(app: ASGIApp) -> None:
    text = fetch(app, "/logs", client=RM).text
    assert re.search(r"<body[^>]* data-live", text)
    assert 'id="follow"' in text


def test_the_real_server_serves_one_job(tmp_path: Path) -> None:
    """Only that job; a client that bypasses the proxy is redirected to it."""
    folder = keep(Home(tmp_path))
    served = AmServer(replace(CONFIG, folder=str(folder.path), address="http://rm/proxy/x/"))
    assert "Timeline" in fetch(served, "/", client=RM).text
    past = fetch(served, "/", client="10.0.0.2", headers={"Cookie": "proxy-user=ann"})
    assert (past.status_code, past.headers["location"]) == (302, "http://rm/proxy/x/")
    nowhere = AmServer(replace(CONFIG, folder=str(folder.path)))
    assert fetch(nowhere, "/", client="10.0.0.2").status_code == 403


def test_only_the_proxy_authenticates_users(app: ASGIApp) -> None:
    """Not a header, not a token, not another machine."""
    for headers in ({"X-User": "ann"}, {"Authorization": "Bearer ann"}, {}):
        assert fetch(app, "/api/v1/me", headers=headers, client="10.0.0.2").status_code == 403
    assert fetch(app, "/api/v1/me", client=RM, headers={"X-User": "ann"}).json()["user"] == ""


def test_names_of_the_proxy() -> None:
    """Its own, the short one, and those of its address: YARN itself links to the first of these."""
    found = set(
        _derive_origins(["http://rm.example.org:8088", "https://10.0.0.1:443"], ["node1.example.org", "localhost"])
    )
    hosts = ("rm.example.org", "rm", "node1.example.org", "node1", "localhost", "10.0.0.1")
    assert found == {f"http://{host}:8088" for host in hosts} | {f"https://{host}" for host in hosts}


def test_names_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow or missing answer of the DNS is left out, so that the page need not wait."""
    never = threading.Event()

    def slow(address: str) -> tuple[str, list[str], list[str]]:
        if address == "10.0.0.1":
            return "RM.example.org", ["rm.internal"], [address]
        if address == "10.0.0.2":
            raise socket.herror("unknown host")
        never.wait()
        return address, [], []

    monkeypatch.setattr(socket, "gethostbyaddr", slow)
    assert _reverse_lookup(["10.0.0.2", "10.0.0.1"]) == {"rm.example.org", "rm.internal"}
    monkeypatch.setattr(am_server, "_REVERSE_LOOKUP_TIMEOUT_SECONDS", 0.01)
    assert _reverse_lookup(["10.0.0.3"]) == set()
    never.set()


def test_a_change_from_an_unknown_origin_is_refused(app: ASGIApp) -> None:
    """The message lists the permitted ones."""
    who = {"Cookie": "proxy-user=ann", "Content-Type": "application/json"}
    token = fetch(app, "/api/v1/me", client=RM, headers=who).json()["page_token"]
    answers = {
        origin: fetch(
            app,
            f"/api/v1/jobs/x/stop?token={token}",
            method="PUT",
            client=RM,
            headers={**who, "Origin": origin},
        ).json()["error"]
        for origin in ("http://rm.example.org:8088", "http://rm:8088", "http://rm.other.org:8088")
    }
    assert [each["code"] for each in answers.values()][2] == "not-own"
    assert "http://rm.example.org:8088 or http://rm:8088" in answers["http://rm.other.org:8088"]["message"]
    assert "not-own" not in [each["code"] for each in list(answers.values())[:2]]


def test_the_server_ends_silently_without_its_master() -> None:
    """Its input is at its end: it exits with 0 and prints nothing."""
    root, packages = (str(Path(each).parents[1]) for each in (tony.__file__, applications.__file__))
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _CODE, root, packages], input=b"", capture_output=True, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
