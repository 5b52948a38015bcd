"""A page that stays open while its server does not answer, or its address leads elsewhere."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.web.sample_jobs import as_peer, keep
from tests.web.serving import served
from tests.web.test_am_server import Running
from tony.model.state_directory import Home
from tony.web.app import create
from tony.web.server_context import ServerContext
from tony.web.user_authentication import AuthConfig, Authenticator

pytest.importorskip("playwright", reason="needs Playwright, which is not in this environment")

from playwright.sync_api import expect

from tests.e2e.browsers import browsing, chromium

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


class Proxied:
    """A job's pages as a cluster's proxy has them: it leads elsewhere while there is no master."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._does = "pass on"
        self._passed: set[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = set()

    @property
    def does(self) -> str:
        """`pass on`, `fail` or `lead on`; also with requests that the application holds."""
        return self._does

    @does.setter
    def does(self, what: str) -> None:
        self._does = what
        for loop, task in [*self._passed]:
            loop.call_soon_threadsafe(task.cancel)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.does == "pass on":

            async def run() -> None:
                await self._app(scope, receive, send)

            passed = asyncio.get_running_loop(), asyncio.ensure_future(run())
            self._passed.add(passed)
            await asyncio.wait([passed[1]])
            self._passed.remove(passed)
            if not passed[1].cancelled():
                return
        there = scope["path"] == "/elsewhere"
        headers = [(b"content-type", b"text/html")]
        if not there and self.does == "lead on":
            headers.append((b"location", b"http://127.0.0.1:%d/elsewhere" % scope["server"][1]))
        status = 200 if there else 302 if self.does == "lead on" else 500
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"<h1>the cluster's own page</h1>"})


def test_an_open_page_survives_an_am_restart(tmp_path: Path) -> None:
    """The AM dies, and another one starts: the page continues. When the job ends, the page follows its address to
    the portal."""
    if chromium() is None:
        pytest.skip("needs Chromium: scripts/system-packages")
    folder = keep(Home(tmp_path))
    app = create(
        ServerContext(Running(folder), Authenticator(AuthConfig(key=b"k" * 32, owner="ann")), only=folder.job_id)
    )
    proxied = Proxied(as_peer(app, os.geteuid()))
    with served(proxied) as port, browsing() as browser, browser.page(f"http://127.0.0.1:{port}/") as page:
        page.clock.install()
        page.goto("./")
        old, address = page.locator("#old"), page.url
        expect(page.locator("h1 .badge")).to_have_text("running")
        for away in ("fail", "lead on"):
            with page.expect_response("**/?known=*") as asked:
                page.clock.run_for(4_000)
                proxied.does = away
            assert asked.value.status in (302, 500)
            expect(old).to_be_visible()
            proxied.does = "pass on"
            with page.expect_response("**/"):
                page.clock.run_for(8_000)
            expect(old).to_be_hidden()
            assert page.url == address
        proxied.does = "lead on"
        for _ in range(200):
            if page.url == address:
                page.clock.run_for(4_000)
                page.wait_for_load_state("networkidle")
        expect(page.locator("h1")).to_have_text("the cluster's own page")
        assert page.url.endswith("/elsewhere")
