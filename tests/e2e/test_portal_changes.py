"""A running job, changed through the portal's API: by permitted users, and its events record the user."""

from __future__ import annotations

import http.client
import json
from typing import Any

import pytest

from tests.e2e.lab import Lab, until
from tests.web.home_source import HomeSource
from tests.web.serving import served
from tony.core.events import REQUESTS
from tony.model.state_directory import Home
from tony.portal.access.login_credentials import TokenFile
from tony.web.app import create
from tony.web.server_context import ServerContext
from tony.web.user_authentication import AuthConfig, Authenticator

pytestmark = pytest.mark.e2e

JOB = """
editors = ["mo"]
viewers = ["vic"]
command = "echo pass$HIDDEN_TOKEN; exec python -c 'import time; time.sleep(1000)'"
stop_grace = "1s"
[env]
HIDDEN_TOKEN = "hunter22-and-more"
"""


def call(port: int, method: str, path: str, token: str, body: object = None) -> tuple[int, Any]:
    """One request with a token of one's own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection.request(method, f"/api/v1/{path}", None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_editors_may_change_a_job(lab: Lab) -> None:
    """A viewer reads, an editor changes, each change is an event with its actor; a secret of the job is not shown."""
    job = lab.detach(lab.job_file(JOB))
    lab.wait(job, "running")
    lab.wait_output(job, "main:0", "pass")
    tokens = TokenFile(lab.root / "portal")
    vic, mo, eve = (tokens.make(user)[0] for user in ("vic", "mo", "eve"))
    app = create(
        ServerContext(
            HomeSource(Home(lab.home), "owner"),
            Authenticator(AuthConfig(key=tokens.load_key(), owner="owner", tokens=tokens)),
        )
    )
    with served(app) as port:
        assert call(port, "GET", f"jobs/{job}", eve)[0] == 404
        status, report = call(port, "GET", f"jobs/{job}", vic)
        assert (status, report["state"]) == (200, "running")
        assert call(port, "PUT", f"jobs/{job}/stop", vic)[1]["error"]["code"] == "not-allowed"
        assert call(port, "PUT", f"jobs/{job}/stop", eve)[0] == 404
        log = call(port, "GET", f"jobs/{job}/logs?task=main:0", vic)[1]["logs"][0]["name"]
        said = call(port, "GET", f"jobs/{job}/logs/{log}", vic)[1]["text"]
        assert said == f"pass{'*' * len('hunter22-and-more')}\n"
        status, stacks = call(port, "PUT", f"jobs/{job}/stacks?task=main:0", mo)
        assert status == 200, stacks
        assert stacks["text"]
        assert call(port, "PUT", f"jobs/{job}/log-level?level=debug", mo)[1]["actor"] == "mo"
        assert call(port, "PUT", f"jobs/{job}/restart", mo)[1]["asked"] == "restart"
        until(lambda: call(port, "GET", f"jobs/{job}", vic)[1]["session"] == 2, "the second session")
        lab.wait(job, "running")
        assert call(port, "PUT", f"jobs/{job}/stop", mo)[1]["asked"] == "stop"
        lab.wait(job, "killed")
        asked = [
            (line["data"]["actor"]["name"], line["event"])
            for line in call(port, "GET", f"jobs/{job}/events?most=5000", vic)[1]["events"]
            if line["event"] in [kind.kind for kind in REQUESTS]
        ]
        assert asked == [
            ("mo", "stacks-requested"),
            ("mo", "log-level-requested"),
            ("mo", "restart-requested"),
            ("mo", "kill-requested"),
        ]
        assert call(port, "PUT", f"jobs/{job}/stop", mo)[1]["error"]["code"] == "has-ended"
        # The log itself has stars: the executor wrote them.
        assert "hunter22" not in call(port, "GET", f"jobs/{job}/logs/{log}", vic)[1]["text"]
