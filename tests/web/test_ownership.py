"""The API as a job's owner, its viewer and another user come to it: sequences of requests over hostile records.

What the table of operations allows each of them is asked in one row each; what comes of sequences, in which an answer's
ids go into the next request, is asked by schemathesis.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from starlette.types import ASGIApp

from tests.web.home_source import HomeSource
from tests.web.sample_jobs import TEST_PROXY, fetch, keep
from tony.history.job_record import read_summary
from tony.history.json_files import write_json
from tony.model.codec import to_plain
from tony.model.state_directory import Home
from tony.web.api.operation import Operation
from tony.web.api.request_handler import OPERATIONS
from tony.web.app import create
from tony.web.server_context import ServerContext
from tony.web.user_authentication import AuthConfig, Authenticator
from tony.web.uvicorn_server import PEER

JOB = "local-20260101-000000-0a1b2c"
DAMAGED = [f"local-20260101-000000-00000{number}" for number in range(4)]
#: Stands in every record; another user must never read it.
CANARY = "canary-of-ann"
VALUES = {
    "job": JOB,
    "with": JOB,
    "name": "worker-0.s1.t1.out",
    "task": "worker:0",
    "series": "cpu",
    "role": "worker",
    "level": "debug",
    "path": "job.json",
    "text": "x",
}
#: Who asks, and the statuses of reading and changing a job that has ended.
USERS = {"ann": ({200}, {409}), "vic": ({200}, {403}), "ben": ({404}, {404})}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> ASGIApp:
    """Of one job without damage, and of some that are damaged in different ways; all ann's, and vic may look."""
    home = Home(tmp_path_factory.mktemp("home"))
    for job in (JOB, *DAMAGED):
        folder = keep(home, job, name=CANARY, tags=(CANARY,), viewers=("vic",))
        (folder.logs / "worker-0.s1.t1.out").write_text(f"{CANARY}\n")
    _damage(home)
    terms = AuthConfig(key=b"k" * 32, owner="root", proxies=(TEST_PROXY,), names=frozenset({"testserver"}))
    return create(ServerContext(HomeSource(home, "ann"), Authenticator(terms)))


def _damage(home: Home) -> None:
    first, second, third, fourth = (home.job(job) for job in DAMAGED)
    first.metrics.write_bytes(b"SQLite format 3\0" + os.urandom(200))
    second.events(1).write_bytes(second.events(1).read_bytes()[:-20] + b"\n{}\n")
    summary = read_summary(third)
    assert summary is not None
    tasks = tuple(replace(task, note="\x1b[2J\u202e", host="../..") for task in summary.tasks)
    write_json(third.summary, to_plain(replace(summary, tasks=tasks)))
    fourth.summary.write_text("[" * 10_000)


def as_user(app: ASGIApp, user: str) -> ASGIApp:
    """The application behind a proxy that names one user."""

    async def run(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            scope = {**scope, "client": ("10.0.0.1", 5000), PEER: None}
            scope["headers"] = [*scope["headers"], (b"x-user", user.encode())]
        await app(scope, receive, send)

    return run


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
@pytest.mark.parametrize("user", USERS)
def test_responses_by_user(app: ASGIApp, user: str, operation: Operation) -> None:
    """A user without permission gets the same response for this job and for one that does not exist."""
    mine = as_user(app, user)
    token = json.loads(fetch(mine, "/api/v1/me").text)["page_token"]
    wanted = {each.name: VALUES[each.name] for each in operation.parameters if each.required}

    def ask(job: str) -> tuple[int, str]:
        path = f"/api/v1{operation.path}".replace("{job}", job).replace("{name}", VALUES["name"])
        words = {name: value for name, value in wanted.items() if f"{{{name}}}" not in operation.path}
        content = json.dumps({"token": token}).encode() if operation.changes else b""
        answer = fetch(mine, f"{path}?{urlencode(words)}", method=operation.method, content=content)
        return answer.status_code, answer.text

    status, text = ask(JOB)
    if "{job}" in operation.path:
        reading, changing = USERS[user]
        assert status in (changing if operation.changes else reading), text
    else:
        assert status == 200, text
    if user == "ben":
        assert CANARY not in text
        assert JOB not in text
        assert (status, text) == ask("local-20260101-000000-ffffff")


@pytest.mark.parametrize("user", USERS)
def test_sequences_of_requests(app: ASGIApp, user: str) -> None:
    """Ids of answers go into further requests: none of them fails, changes anything, or shows another user a job."""
    schema = schemathesis.openapi.from_asgi("/api/v1/openapi.json", as_user(app, user))
    statuses = []

    class Sequence(schema.as_state_machine()):  # type: ignore[misc]
        """Requests that follow each other."""

        def before_call(self, case: Any) -> None:
            for values in (case.path_parameters, case.query):
                if "job" in (values or {}):
                    values["job"] = [JOB, *DAMAGED][len(str(values["job"])) % 5]

        def validate_response(self, response: Any, case: Any, **more: Any) -> None:
            statuses.append(response.status_code)
            assert response.status_code != 500, case.as_curl_command()
            if case.method == "PUT":
                assert response.status_code in (400, 403, 404, 409), case.as_curl_command()
            if user == "ben":
                assert CANARY not in response.text, case.as_curl_command()

    Sequence.run(
        settings=settings(
            max_examples=3,
            stateful_step_count=8,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
    )
    assert len(statuses) > 10
