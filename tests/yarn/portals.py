"""A portal over histories of a cluster, inside the test's process."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.e2e.lab import CEILING
from tests.web.sample_jobs import as_peer
from tests.yarn.lab import user
from tony.model.state_directory import Home
from tony.portal.histories.history_locations import open_location
from tony.portal.indexed_jobs import IndexedJobs
from tony.portal.tensorboard.tensorboard_manager import MAX_TENSORBOARDS, TensorBoardManager
from tony.portal.tensorboard.tensorboard_routes import TensorBoardRoutes
from tony.web.app import create
from tony.web.server_context import ServerContext
from tony.web.user_authentication import AuthConfig, Authenticator


def history() -> str:
    """The staging folder of the user that runs the tests."""
    return f"hdfs:///user/{user()}/.tony"


@dataclass(frozen=True, slots=True)
class Seen:
    """A portal, and a browser of its own user's before it.

    Attributes:
        boards: the TensorBoards that it has started.
    """

    boards: TensorBoardManager
    browser: httpx.AsyncClient

    async def start(self, jobs: str) -> httpx.Response:
        me = await self.browser.get("/api/v1/me")
        said = json.dumps({"token": me.json()["page_token"]})
        return await self.browser.put(f"/tensorboard/{jobs}/start", content=said)

    async def page(self, path: str, holds: str = "") -> str:
        """A page, as soon as there is one with this in it."""
        last = ""

        async def there() -> bool:
            nonlocal last
            answer = await self.browser.get(path)
            last = answer.text
            return answer.status_code == 200 and holds in last

        await until(there, lambda: f"{path} holds {holds!r}: {last[-5000:]}")
        return last


async def until(holds: Callable[[], Awaitable[bool]], what: Callable[[], str] = str) -> None:
    try:
        async with asyncio.timeout(CEILING):
            while not await holds():
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"not within {CEILING:g} s: {what()}") from None


@asynccontextmanager
async def seen(
    home: Path, histories: Sequence[str] = (), *, most: int = MAX_TENSORBOARDS, idle: float = 600.0
) -> AsyncIterator[Seen]:
    """A portal in a home, over that one's own jobs or over these histories."""
    ours = Home(home)
    portal = IndexedJobs(
        ours, [open_location(each, ours, os.environ) for each in histories or [str(home)]], "a test's jobs"
    )
    context = ServerContext(portal, Authenticator(AuthConfig(key=b"k" * 32, owner=user())), boards=True)
    boarding = TensorBoardRoutes(ours, portal, context, TensorBoardManager(ours.portal / "boards", most, idle))
    app = create(context, boarding.build_routes())
    transport = httpx.ASGITransport(app=as_peer(app, os.geteuid()), client=("127.0.0.1", 50000))
    await portal.start()
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8600", timeout=CEILING) as browser:
            yield Seen(boarding.boards, browser)
    finally:
        await boarding.close()
        await portal.close()
