"""Hostile records, addresses and clients."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.types import ASGIApp

from tests.web.home_source import HomeSource
from tests.web.sample_jobs import TEST_PROXY, as_peer, fetch, keep
from tony.history.job_record import read_summary
from tony.history.json_files import write_json
from tony.model.codec import to_plain
from tony.model.failure import Failure, FailureCause, FailureClass
from tony.model.state_directory import Home, JobFolder
from tony.web.app import create
from tony.web.server_context import ServerContext
from tony.web.user_authentication import AuthConfig, Authenticator

JOB = "local-20260101-000000-0a1b2c"
API = f"/api/v1/jobs/{JOB}"
#: A secret that no other user may see.
TREASURE = "the treasure of another user"
PAGES = ("", "/tasks", "/task/worker:0", "/logs", "/metrics", "/events", "/settings", "/files", "/timeline")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home, beside which lies something that is none of its."""
    (tmp_path / "treasure").write_text(TREASURE)
    return Home(tmp_path / "home")


def portal(home: Home) -> ASGIApp:
    terms = AuthConfig(key=b"k" * 32, owner="ann", proxies=(TEST_PROXY,), admins=("boss",))
    return as_peer(create(ServerContext(HomeSource(home, "ann"), Authenticator(terms))), os.geteuid())


def ask(app: ASGIApp, path: str, user: str = "", **more: Any) -> tuple[int, str]:
    """Status and text, for the owner, or for a user that a proxy names."""
    headers: Mapping[str, str] = {"X-User": user} if user else {}
    answer = fetch(app, path, headers=headers, client="10.0.0.1" if user else "127.0.0.1", **more)
    return answer.status_code, answer.text


# --- ways out of a record -------------------------------------------------------------------------------------------

OUT = [
    "../treasure",
    "../../treasure",
    "../../../treasure",
    "logs/../../../../treasure",
    "/etc/passwd",
    "logs//etc/passwd",
    "secret/credentials.json",
    "logs/../secret/credentials.json",
    "job.json/../secret/job.json",
    "job.json\0",
    "..\\..\\treasure",
    "%2e%2e/%2e%2e/treasure",
    ".",
    "",
]


@pytest.mark.parametrize("path", OUT)
def test_no_path_leads_out_of_a_record(home: Home, path: str) -> None:
    """Files are those that are listed, and nothing else."""
    folder = keep(home)
    write_json(folder.credentials, {"token": TREASURE})
    app = portal(home)
    answer = fetch(app, f"{API}/file?path={path.replace('%', '%25').replace(chr(0), '%00')}")
    assert answer.status_code in (400, 404)
    assert TREASURE not in answer.text


@pytest.mark.parametrize("name", ["%2e%2e%2fsummary.json", "am.log", "worker-0.executor.log"])
def test_no_log_leads_out_of_the_logs(home: Home, name: str) -> None:
    """A log is one of a task's."""
    keep(home)
    assert fetch(portal(home), f"{API}/logs/{name}").status_code == 404


@pytest.mark.parametrize("job", ["%2e%2e", "%2e%2e%2f%2e%2e", "x%00y", "a" * 5000, "é", "%ff", "*", "last"])
def test_no_job_is_called_so(home: Home, job: str) -> None:
    """Only whole ids are looked for, and none of a wrong form."""
    keep(home)
    app = portal(home)
    assert fetch(app, f"/api/v1/jobs/{job}").status_code in (400, 404)
    assert fetch(app, f"/job/{job}").status_code in (400, 404)


# --- secrets --------------------------------------------------------------------------------------------------------


def test_secrets_are_nowhere(home: Home) -> None:
    """Neither in the configuration nor in files, logs, searches, reports and pages."""
    secret = "hf_" + "Ab1" * 11
    folder = keep(home, env={"HF_TOKEN": secret, "DB_PASSWORD": "hunter22", "PLAIN": "shown"})
    (folder.logs / "worker-0.s1.t1.out").write_text(f"token is {secret}\nHF_TOKEN=abc\nplain text\n")
    ended = read_summary(folder)
    assert ended is not None
    failure = Failure(
        failure_class=FailureClass.USER, cause=FailureCause.PROGRAM, reason=f"x {secret}", session=1, at=1.0
    )
    write_json(folder.summary, to_plain(replace(ended, failure=replace(failure, tail=(f"bad {secret}",)))))
    app = portal(home)
    paths = [f"/job/{JOB}{page}" for page in PAGES] + ["/", "/api/v1/jobs", API]
    paths += [f"{API}/{part}" for part in ("configuration", "events", "timeline", "logs?task=worker:0")]
    paths += [f"{API}/logs/worker-0.s1.t1.out", f"{API}/logs/worker-0.s1.t1.out/download"]
    paths += [f"{API}/file?path={name}" for name in ("job.json", "summary.json", "logs/worker-0.s1.t1.out")]
    for path in paths:
        status, text = ask(app, path)
        assert status == 200, path
        assert secret not in text, path
        assert "HF_TOKEN=abc" not in text, path
    for path in (f"{API}/configuration", f"/job/{JOB}/settings?all=yes"):
        text = ask(app, path)[1]
        assert "hunter22" not in text
        assert "shown" in text
    for word in (secret[:8], secret[:20], "TOKEN=a"):
        assert json.loads(ask(app, f"{API}/lines?text={word}")[1])["lines"] == []
    assert [line["line"] for line in json.loads(ask(app, f"{API}/lines?text=plain")[1])["lines"]] == ["plain text"]


def test_secrets_of_a_record_are_not_used(home: Home) -> None:
    """Output is masked by the executor; a portal that used the values in a record would confirm guesses of them."""
    folder = keep(home, env={"DB_PASSWORD": "***"})
    known = json.loads(folder.job.read_text())
    known["spec"]["env"]["DB_PASSWORD"] = "correct-horse"
    write_json(folder.secret_job, known)
    (folder.logs / "worker-0.s1.t1.out").write_text("candidate correct-horse\n")
    assert "candidate correct-horse" in ask(portal(home), f"{API}/logs/worker-0.s1.t1.out")[1]


def test_a_secret_across_two_pieces(home: Home) -> None:
    """Wherever a piece begins or ends, it shows nothing of a secret."""
    secret = "hf_" + "Ab1" * 11
    folder = keep(home)
    (folder.logs / "worker-0.s1.t1.out").write_text(f"token {secret} end\n")
    app = portal(home)
    for offset in range(0, 44, 3):
        piece = json.loads(ask(app, f"{API}/logs/worker-0.s1.t1.out?offset={offset}&most=5")[1])
        assert set(piece["text"]) <= set("token *end\n")


# --- what is shown is text ------------------------------------------------------------------------------------------

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'`&{{7*7}}\x1b[31m\u202egnp"


def test_names_lines_and_reasons_are_text(home: Home) -> None:
    """Whatever a job is called and prints, no page takes it for anything else."""
    folder = keep(home, name=EVIL, tags=(EVIL,))
    (folder.logs / "worker-0.s1.t1.out").write_text(f"{EVIL}\n\x1b]8;;javascript:alert(1)\x1b\\link\x1b]8;;\x1b\\\n")
    ended = read_summary(folder)
    assert ended is not None
    failure = Failure(
        failure_class=FailureClass.USER, cause=FailureCause.PROGRAM, reason=EVIL, session=1, at=1.0, tail=(EVIL,)
    )
    tasks = tuple(replace(task, host=EVIL, note=EVIL) for task in ended.tasks)
    write_json(folder.summary, to_plain(replace(ended, name=EVIL, failure=failure, tasks=tasks)))
    other = keep(home, "local-20260101-000000-000be1", name=EVIL).job_id
    app = portal(home)
    words = f"?text={EVIL[:20].replace('<', '%3C').replace('>', '%3E')}"
    for path in [f"/job/{JOB}{page}" for page in PAGES] + [
        "/",
        f"/{words}",
        f"/compare?job={JOB}",
        f"/compare?job={JOB}&job={other}",
    ]:
        status, text = ask(app, path)
        assert status == 200, path
        assert "<script>alert" not in text, path
        assert "<img src=x" not in text, path
        assert "\x1b" not in text, path
        assert "\u202e" not in text, path
        assert "javascript:" not in text, path


# --- who may --------------------------------------------------------------------------------------------------------


def test_hidden_jobs_do_not_exist_for_others(home: Home) -> None:
    """No list and no page tells whether there is such a job; `test_ownership.py` has the same of operations."""
    keep(home)
    app = portal(home)
    status, text = ask(app, "/api/v1/jobs", "ben")
    assert (status, json.loads(text)["jobs"]) == (200, [])
    assert JOB not in ask(app, "/", "ben")[1]
    for page in PAGES:
        assert ask(app, f"/job/{JOB}{page}", "ben")[0] == 404, page
    own = "local-20260101-000000-000be0"
    keep(home, own, user="ben")
    answers = [ask(app, f"/api/v1/jobs/{own}/compare?with={other}", "ben") for other in (own, JOB, "no")]
    assert answers[0][0] == 200
    assert answers[1] == answers[2]
    assert answers[2][0] == 404


VALUES = {
    "with": JOB,
    "task": "worker:0",
    "series": "cpu",
    "role": "worker",
    "level": "debug",
    "path": "job.json",
    "text": "x",
}


@pytest.mark.parametrize(
    ("user", "sees", "changes"), [("ann", True, True), ("boss", True, True), ("vic", True, False), ("mo", True, True)]
)
def test_permissions_of_viewers_and_editors(home: Home, user: str, sees: bool, changes: bool) -> None:
    """Viewers look, editors and owner change; of a job that has ended there is nothing to change."""
    keep(home, viewers=("vic",), editors=("mo",))
    app = portal(home)
    assert (ask(app, API, user)[0] == 200) is sees
    assert (JOB in ask(app, "/", user)[1]) is sees
    token = json.loads(ask(app, "/api/v1/me", user)[1])["page_token"]
    status, text = ask(app, f"{API}/stop", user, method="PUT", content=json.dumps({"token": token}).encode())
    assert (status, json.loads(text)["error"]["code"]) == ((409, "has-ended") if changes else (403, "not-allowed"))


def test_a_change_without_the_pages_token(home: Home) -> None:
    """Is refused before anything is looked at; and nothing but PUT changes anything."""
    keep(home)
    app = portal(home)
    status, text = ask(app, f"{API}/stop", method="PUT")
    assert (status, "/api/v1/me" in json.loads(text)["error"]["advice"]) == (403, True)
    assert ask(app, f"{API}/stop", method="PUT", content=b'{"token": "no"}')[0] == 403
    assert ask(app, f"{API}/stop", method="PUT", content=b"x" * 100_000)[0] == 413
    assert ask(app, f"{API}/stop", method="PUT", content=b"[" * 10_000)[0] == 400
    for method in ("GET", "POST", "DELETE", "OPTIONS", "HEAD"):
        assert ask(app, f"{API}/stop", method=method)[0] == 405, method


# --- numbers without end --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", ["0", "-1", "-999999999999999", "999999999999999", "-0"])
@pytest.mark.parametrize("most", ["1", "1048576"])
def test_far_offsets(home: Home, offset: str, most: str) -> None:
    keep(home)
    status, text = ask(portal(home), f"{API}/logs/worker-0.s1.t1.out?offset={offset}&most={most}")
    piece = json.loads(text)
    assert status == 200
    assert 0 <= piece["offset"] <= piece["next"] <= piece["size"]


@pytest.mark.parametrize(
    "words",
    [
        "most=0",
        "most=-1",
        "most=1048577",
        "most=99999999999999999999999",
        "most=1e3",
        "most=٣",
        "offset=0x10",
        "offset=1&offset=2",
        "offset=nan",
        "offset=",
    ],
)
def test_numbers_that_make_no_sense(home: Home, words: str) -> None:
    keep(home)
    status, text = ask(portal(home), f"{API}/logs/worker-0.s1.t1.out?{words}")
    assert (status, json.loads(text)["error"]["code"]) == (400, "bad-parameter")
    assert words.partition("=")[0] in json.loads(text)["error"]["message"]


@pytest.mark.parametrize("after", [10**15, -100_000])
def test_numbers_are_held_to_the_documents_bounds(home: Home, after: int) -> None:
    keep(home)
    app = portal(home)
    further = after + (1 if after > 0 else -1)
    assert ask(app, f"{API}/events?after={after}")[0] == 200
    status, text = ask(app, f"{API}/events?after={further}")
    assert (status, json.loads(text)["error"]["code"]) == (400, "bad-parameter")


def test_an_event_log_of_long_lines_is_no_answer_without_end(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tony.history.event_queries._MAX_EVENT_BYTES", 1 << 16)
    log = keep(home).events(1)
    data = {"actor": {"name": "a"}, "level": "x" * 10_000}
    event = {"seq": 1, "at": 1.0, "wall": 1, "event": "log-level-requested", "data": data}
    with log.open("a") as file:
        file.writelines(json.dumps(event) + "\n" for _ in range(20))
    app = portal(home)
    for words in ("after=0&most=5000", "after=-20"):
        status, text = ask(app, f"{API}/events?{words}")
        assert (status, json.loads(text)["error"]["code"]) == (502, "damaged-record")
    assert ask(app, f"{API}/events?after=-3")[0] == 200


def test_refused_changes_are_logged_a_few_times(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    keep(home, viewers=("una", "zoe"))
    app = portal(home)
    for user in ("una", "zoe"):
        token = json.loads(ask(app, "/api/v1/me", user)[1])["page_token"]
        content = json.dumps({"token": token}).encode()
        for _ in range(20):
            assert ask(app, f"{API}/stop", user, method="PUT", content=content)[0] == 403
    lines = [record.getMessage() for record in caplog.records if record.name == "tony.web.audit"]
    assert [sum(f"by '{user}'" in line for line in lines) for user in ("una", "zoe")] == [6, 6]


# --- damage ---------------------------------------------------------------------------------------------------------

FILES = ("job.json", "summary.json", "events.1.jsonl", "metrics.db")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> JobFolder:
    """A record without damage, to be copied."""
    return keep(Home(tmp_path_factory.mktemp("sound")))


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    name=st.sampled_from(FILES),
    at=st.floats(0, 1),
    data=st.binary(max_size=40) | st.sampled_from([b"null", b"[]", b"{}", b"1e999", b"\xff\xfe", b'"' * 9]),
    how=st.sampled_from(["cut", "whole", "overwritten", "inserted"]),
)
def test_a_damaged_record_affects_no_other_job(
    tmp_path_factory: pytest.TempPathFactory, sound: JobFolder, name: str, at: float, data: bytes, how: str
) -> None:
    """It is shown as damaged, or as much of it as there is; other jobs are as they were; nothing is a bug of ours."""
    home = Home(tmp_path_factory.mktemp("damaged"))
    other = "local-20260102-000000-0a1b2c"
    for job in (JOB, other):
        shutil.copytree(sound.path, home.job(job).path)
    for file in ("job.json", "summary.json"):
        path = home.job(other).path / file
        path.write_text(path.read_text().replace(JOB, other))
    path = home.job(JOB).path / name
    whole = path.read_bytes()
    cut = int(at * len(whole))
    path.write_bytes(
        {
            "cut": whole[:cut],
            "whole": data,
            "overwritten": whole[:cut] + data + whole[cut + len(data) :],
            "inserted": whole[:cut] + data + whole[cut:],
        }[how]
    )
    app = portal(home)
    parts = ("", "/tasks", "/events", "/timeline", "/goodput", "/metrics", "/configuration", "/files")
    for address in (*(f"{API}{part}" for part in parts), *(f"/job/{JOB}{page}" for page in PAGES)):
        assert ask(app, address)[0] != 500, address
    status, text = ask(app, "/api/v1/jobs")
    assert status == 200
    assert other in [head["job"] for head in json.loads(text)["jobs"]]
    assert ask(app, f"/api/v1/jobs/{other}")[0] == 200


@pytest.mark.parametrize("number", ["1e300", "-5", "18446744073709551615", "1e-300"])
@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("events.1.jsonl", "at"),
        ("events.1.jsonl", "wall"),
        ("summary.json", "ended"),
        ("summary.json", "since"),
        ("job.json", "instances"),
        ("job.json", "submitted"),
    ],
)
def test_numbers_of_a_record_that_make_no_sense(home: Home, name: str, key: str, number: str) -> None:
    """The last one of them: it is damage, or a number like any other, and never a bug of ours."""
    path = keep(home).path / name
    before, found, after = path.read_text().rpartition(f'"{key}":')
    path.write_text(before + found + re.sub(r"^[0-9.e+-]+", number, after))
    app = portal(home)
    parts = ("", "/timeline", "/goodput", "/configuration", "/advice")
    for address in (*(f"{API}{part}" for part in parts), *(f"/job/{JOB}{page}" for page in PAGES), "/", "/api/v1/jobs"):
        assert ask(app, address)[0] != 500, address


# --- headers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("/", "GET"),
        (API, "GET"),
        ("/nothing", "GET"),
        ("/api/v1/no", "GET"),
        (API, "DELETE"),
        ("/job/x", "GET"),
        ("/", "POST"),
    ],
)
def test_headers_of_every_answer(home: Home, path: str, method: str) -> None:
    """Nothing is guessed, framed, kept or told to other sites, be it a page, an answer or an error."""
    keep(home)
    for client in ("127.0.0.1", "192.0.2.1"):
        headers = fetch(portal(home), path, method=method, client=client).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] in ("same-origin", "no-referrer")
        assert headers["cache-control"] == "no-store"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers


def test_a_downloaded_log_is_not_rendered(home: Home) -> None:
    """A log that looks like HTML is a file to save."""
    folder = keep(home)
    (folder.logs / "worker-0.s1.t1.out").write_text("<html><script>alert(1)</script>")
    app = portal(home)
    log = f"{API}/logs/worker-0.s1.t1.out/download"
    for path in (log, f"{API}/file?path=job.json"):
        headers = fetch(app, path).headers
        assert headers["content-type"] == "application/octet-stream"
        assert headers["content-disposition"].startswith("attachment")


def test_an_answer_that_is_known_is_not_sent_again(home: Home) -> None:
    keep(home)
    app = portal(home)
    first = fetch(app, API)
    again = fetch(app, API, headers={"If-None-Match": f'W/"x", {first.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    other = fetch(app, f"{API}?tasks=no", headers={"If-None-Match": first.headers["etag"]})
    assert other.status_code == 200


# --- whatever is asked ------------------------------------------------------------------------------------------------

SEGMENTS = st.sampled_from(
    ["job", JOB, "log", "task", "worker:0", "out", "api", "v1", "jobs", "assets", "compare", ".."]
)
WORDS = st.sampled_from(
    ["text", "sort", "after", "most", "since", "at", "find", "percent", "task", "a", "b", "state", "all"]
)
SPEAKS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    parts=st.lists(SEGMENTS | SPEAKS, max_size=7),
    words=st.dictionaries(
        WORDS | SPEAKS,
        SPEAKS | st.integers().map(str),
        max_size=4,
    ),
)
def test_no_address_breaks_a_page(
    tmp_path_factory: pytest.TempPathFactory, sound: JobFolder, parts: list[str], words: dict[str, str]
) -> None:
    """There is such a page, or there is none, or the address makes no sense: never is it a bug of ours."""
    app = portal(Home(sound.path.parent.parent))
    path = "/" + "/".join(quote(part, safe="") or "-" for part in parts)
    answer = fetch(app, f"{path}?{urlencode(words)}")
    assert answer.status_code in (200, 400, 404, 405), (path, words)
