"""`--portal URL`, and `tony login`: a portal's jobs in the terminal."""

from __future__ import annotations

import io
import json
import os
import stat
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.facts import mention_each, mentions
from tests.jobs.fake_am import logged, recorded, succeeded
from tests.jobs.remote.test_log_fetcher import Far, FarScheduler
from tests.web.home_source import HomeSource
from tests.web.sample_jobs import keep
from tests.web.serving import served
from tony.cli.main import main
from tony.core.events import FailureClassified, FailureResponse, SessionOpened, Snapshot
from tony.errors import SchedulerError, UserError
from tony.history.event_queries import TELLING
from tony.history.job_record import write_summary
from tony.jobs.portal_client.client import PortalClient
from tony.jobs.portal_client.known_portals import is_private, normalize_address
from tony.model.codec import to_plain
from tony.model.ids import TaskId
from tony.model.job_report import Restarts
from tony.model.progress import Progress
from tony.model.progress_rules import measure_job
from tony.model.state_directory import Home
from tony.portal.access.login_credentials import TokenFile
from tony.schedulers import registry
from tony.web.app import create
from tony.web.server_context import ServerContext
from tony.web.user_authentication import AuthConfig, Authenticator

JOB = "local-20260101-000000-0a1b2c"
OTHER = "local-20260102-000000-0d0e0f"


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> TokenFile:
    return TokenFile(tmp_path_factory.mktemp("portal"))


@pytest.fixture(scope="module")
def portal(tmp_path_factory: pytest.TempPathFactory, tokens: TokenFile) -> Iterator[str]:
    """A portal of two jobs, one of which ben may see; it knows our own user, too."""
    home = Home(tmp_path_factory.mktemp("there"))
    folder = keep(home, JOB)
    (folder.logs / "worker-0.s1.t1.out").write_bytes(b"".join(b"line %d \xff\n" % n for n in range(1000)) + b"rest")
    keep(home, OTHER, user="eve", seed=4, name="letters", viewers=("ben",))
    app = create(
        ServerContext(
            HomeSource(home, "ann"), Authenticator(AuthConfig(key=tokens.load_key(), owner="ann", tokens=tokens))
        )
    )
    with served(app) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Our own home, with nothing in it."""
    monkeypatch.setenv("TONY_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TONY_PORTAL", raising=False)
    return tmp_path / "home"


def tony(capfdbinary: pytest.CaptureFixture[bytes], *words: str) -> tuple[int, str, str]:
    """One command line: exit code, output, errors."""
    code = main(words)
    out, err = capfdbinary.readouterr()
    return code, out.decode("utf-8", "replace"), err.decode()


def test_list_status_and_logs(portal: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """They print what they print of jobs here."""
    code, out, _ = tony(capfdbinary, "list", "--portal", portal, "--json")
    assert code == 0
    assert {head["job"] for head in json.loads(out)} == {JOB, OTHER}
    code, out, _ = tony(capfdbinary, "list", "--portal", portal, "--name", "dig*")
    assert (code, JOB in out, OTHER in out) == (0, True, False)
    code, out, _ = tony(capfdbinary, "status", "--portal", portal, "0a1b2c", "--json")
    assert (code, json.loads(out)["job"]) == (0, JOB)
    code, out, _ = tony(capfdbinary, "status", "--portal", portal, JOB)
    assert (code, "worker:0" in out) == (0, True)
    code, out, _ = tony(capfdbinary, "advise", "--portal", portal, JOB, "--json")
    assert (code, json.loads(out)["runs"]) == (0, [JOB])
    assert tony(capfdbinary, "advise", "--portal", portal, JOB)[0] == 0
    code, out, _ = tony(capfdbinary, "logs", "--portal", portal, JOB, "worker:0", "--stdout")
    assert (code, out.count("\n"), out[-5:]) == (0, 1001, "rest\n")
    code, out, _ = tony(capfdbinary, "logs", "--portal", portal, JOB, "worker:0", "--stdout", "-n", "3")
    assert (code, out.split("\n")) == (0, ["line 998 \ufffd", "line 999 \ufffd", "rest", ""])
    code, out, _ = tony(capfdbinary, "logs", "-f", "--portal", portal, JOB, "worker:0", "--stderr", "-n", "1", "--json")
    assert (code, json.loads(out)) == (
        0,
        {"task": "worker:0", "session": 1, "try": 1, "stream": "err", "time": None, "line": "line of err"},
    )


def test_restarts_are_shown(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same lines as where the job's record is."""
    home = Home(tmp_path / "there")
    folder, record = recorded(home)
    reasons = ("go", "worker:1 was lost", "ann asked for it")
    opened = [SessionOpened(session=number, reason=reason) for number, reason in enumerate(reasons, start=1)]
    alone = FailureClassified(
        task=TaskId("worker", 0),
        failure="it failed",
        decision=FailureResponse.RETRY,
        reason="budget left",
    )
    logged(folder, [opened[0], alone, Snapshot(digest="session-opened"), *opened[1:]])
    restarts = Restarts(charged=2, most=5, free=1)
    write_summary(folder, replace(succeeded(folder, record), session=3, restarts=restarts))
    with served(
        create(ServerContext(HomeSource(home, "ann"), Authenticator(AuthConfig(key=b"k" * 32, owner="ann"))))
    ) as port:
        address = f"http://127.0.0.1:{port}"
        code, out, _ = tony(capfdbinary, "status", "--portal", address, JOB)
        with closing(PortalClient(address)) as portal:
            kinds = [event.kind for event in portal.iterate_events(JOB, TELLING)]
    assert kinds == ["session-opened", "judged", "session-opened", "session-opened"]
    assert code == 0
    lines = out.splitlines()
    start = lines.index("Restarted 3 times:") + 1
    assert mention_each(
        lines[start : start + 3],
        ("session 1", "worker:0", "failed"),
        ("session 2", "worker:1", "lost"),
        ("session 3", "ann"),
    )
    monkeypatch.setenv("TONY_HOME", str(home.path))
    assert tony(capfdbinary, "status", JOB)[1] == out


def test_how_far_a_job_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A portal may answer with more fields than this version knows, and with nothing."""
    hung = Progress("worker:0", 1, 1, 0.0, 5.0, 20.0, 15.0, 100.0, stalled_after=30.0)
    known = measure_job([hung], 89.0)
    plain = to_plain(known)
    assert isinstance(plain, dict)
    plain["new"] = 1
    monkeypatch.setattr(PortalClient, "get", lambda self, path: {"job_progress": plain})
    with closing(PortalClient("http://127.0.0.1:1")) as portal:
        assert portal.fetch_progress(JOB) == known
        monkeypatch.setattr(PortalClient, "get", lambda self, path: {"job_progress": None})
        assert portal.fetch_progress(JOB) is None


def test_unknown_jobs_tasks_and_portals(portal: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """An unknown job, an unknown task, a URL without a portal: each message says what to do."""
    code, _, err = tony(capfdbinary, "status", "--portal", portal, "unknown")
    assert (code, "has no job 'unknown'" in err) == (2, True)
    code, _, err = tony(capfdbinary, "status", "--portal", portal, "local-2026")
    assert (code, "several jobs match" in err) == (2, True)
    assert tony(capfdbinary, "status", "--portal", portal, "letters")[1].startswith(OTHER)
    code, _, err = tony(capfdbinary, "logs", "--portal", portal, JOB, "unknown:0")
    assert (code, "has no task 'unknown:0'" in err) == (2, True)
    code, _, err = tony(capfdbinary, "list", "--portal", "http://127.0.0.1:1")
    assert (code, "cannot be reached" in err) == (3, True)
    code, _, err = tony(capfdbinary, "list", "--portal", "ftp://x")
    assert (code, "not an address" in err) == (2, True)


def log_in(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    """What is typed, or comes through a pipe."""
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{token}\n"))


def test_a_token_is_kept_for_its_portal(
    portal: str,
    tokens: TokenFile,
    here: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After the login ben sees what ben may; other users cannot read the token; a revoked one is refused."""
    token, entry = tokens.make("ben")
    log_in(monkeypatch, token)
    code, out, _ = tony(capfdbinary, "login", "--portal", f"{portal}/")
    assert (code, out) == (0, f"Logged in to {portal} as ben\n")
    assert stat.S_IMODE(os.stat(here / "portals.json").st_mode) == 0o600
    code, out, _ = tony(capfdbinary, "list", "--portal", portal, "--json")
    assert [head["job"] for head in json.loads(out)] == [OTHER]
    tokens.revoke(entry.name)
    code, _, err = tony(capfdbinary, "list", "--portal", portal)
    assert (code, f"tony login --portal {portal}" in err) == (2, True)
    assert tony(capfdbinary, "login", "--forget")[0] == 0
    assert "tony_" not in (here / "portals.json").read_text()


def test_a_wrong_token_is_not_kept(
    portal: str, here: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(monkeypatch, "tony_01234567_nothing")
    code, _, err = tony(capfdbinary, "login", "--portal", portal)
    assert (code, "The token is invalid" in err) == (2, True)
    assert not (here / "portals.json").exists()


def test_a_token_is_not_sent_in_the_open(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not without the option that allows plain HTTP."""
    log_in(monkeypatch, "tony_01234567_nothing")
    code, _, err = tony(capfdbinary, "login", "--portal", "http://portal.example")
    assert (code, "--without-tls" in err) == (2, True)


def test_which_portal(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Has to be said where there are none."""
    code, _, err = tony(capfdbinary, "login")
    assert (code, "no portal given." in err) == (2, True)


@pytest.mark.parametrize(
    ("text", "address", "private"),
    [
        ("localhost:8600", "http://localhost:8600", True),
        ("https://Jobs.Example.org:443/", "https://jobs.example.org", True),
        ("http://[::1]:80/a/b/", "http://[::1]/a/b", True),
        ("http://127.9.9.9:1", "http://127.9.9.9:1", True),
        ("http://jobs.example.org", "http://jobs.example.org", False),
    ],
)
def test_addresses(text: str, address: str, private: bool) -> None:
    """One portal has one address, however it is written."""
    assert (normalize_address(text), is_private(address)) == (address, private)


@pytest.mark.parametrize(
    "text", ["", "http://", "http://u:p@host", "http://host:99999", "http://host/?x=1", "file:///x"]
)
def test_invalid_addresses_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="not an address"):
        normalize_address(text)


def test_output_that_a_portal_cannot_get(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For output that the cluster has removed the rest is shown, with the reason why it is incomplete."""
    FarScheduler.theirs = Far()
    FarScheduler.theirs.error = SchedulerError("it was removed")
    monkeypatch.setitem(registry._BUILT_IN, "far", "tests.jobs.remote.test_log_fetcher:FarScheduler")
    home = Home(tmp_path / "there")
    folder = keep(home, JOB, scheduler="far")
    first = sorted(path.name for path in folder.logs.glob("*.out"))[0]
    (folder.logs / first).write_text("output of an earlier command")
    task = TaskId.parse(first.partition(".")[0].replace("-", ":"))
    with served(
        create(ServerContext(HomeSource(home, "ann"), Authenticator(AuthConfig(key=b"k" * 32, owner="ann"))))
    ) as port:
        code, out, err = tony(capfdbinary, "logs", "--portal", f"http://127.0.0.1:{port}", JOB, str(task), "--stdout")
    assert (code, out.strip()) == (0, "output of an earlier command")
    assert mentions(err, task, "missing")
