"""Requests for a page that is open already: they are answered when what the page shows has changed.

So an open page learns of changes at once, and asks for nothing while nothing happens. A held request costs a
connection and no thread. Events of a stream would not pass a ResourceManager's proxy, which forwards a response when
its buffer is full.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from hashlib import blake2b

from starlette.requests import ClientDisconnect, Request

from tony import clock
from tony.jobs.directory.shown_files import ShownFiles
from tony.jobs.directory.view import DirectoryJobView
from tony.web.server_context import ServerContext

#: The query parameter with the version of the page that the client has.
KNOWN = "known"
#: After this time a request is answered even if nothing has changed; proxies wait for a minute.
_HOLD_SECONDS = 25.0
#: Seconds between two looks at what is not announced, because it is written on other machines.
POLL_SECONDS = 2.0
#: Requests held at once: each occupies a connection of the portal, or a thread of the ResourceManager as well. Further
#: ones are answered at once, so that these pages ask again every 1.5 seconds.
_MAX_HELD = 500
_MAX_HELD_BEHIND_PROXY = 8
#: Seconds for which further changes are awaited, so that those which belong together are shown together.
_SETTLE_SECONDS = 0.1


async def wait_for_job(request: Request, context: ServerContext, view: DirectoryJobView, shown: ShownFiles) -> str:
    """Return the version of what is shown of a job; if the client has this version, wait for another one."""
    watches = context.watches
    is_full = watches.count >= (_MAX_HELD_BEHIND_PROXY if context.only else _MAX_HELD)
    if KNOWN not in request.query_params or is_full:
        return await _read_version(view, shown)

    async def reload() -> str:
        view.forget_status()
        return await _read_version(view, shown)

    folders = await view.list_announced_folders(shown)
    with watches.watch(folders, shown.includes) as watch:
        async with view.follow_output(shown):
            pause = _HOLD_SECONDS if folders and watch.works else POLL_SECONDS
            return await wait_for_other_version(request, reload, pause, watch.changed)


async def wait_for_other_version(
    request: Request, read_version: Callable[[], Awaitable[str]], pause: float, changed: asyncio.Event
) -> str:
    """Return the current version; if it is the client's, wait for another one until the time is up or the client left.

    Args:
        pause: seconds after which to read it again, if `changed` is not set before.
    """
    deadline = clock.monotonic() + _HOLD_SECONDS
    gone = asyncio.ensure_future(_wait_until_disconnected(request))
    try:
        version = await read_version()
        while version == request.query_params.get(KNOWN) and (left := deadline - clock.monotonic()) > 0:
            waiting = asyncio.ensure_future(changed.wait())
            await asyncio.wait([waiting, gone], timeout=min(left, pause), return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if gone.done():
                raise ClientDisconnect
            if changed.is_set():
                await asyncio.sleep(_SETTLE_SECONDS)
                changed.clear()
            version = await read_version()
    finally:
        gone.cancel()
    return version


async def _read_version(view: DirectoryJobView, shown: ShownFiles) -> str:
    report = await view.status()
    tasks = [(task.state.value, task.session, task.try_) for task in report.tasks]
    standing = report.state.value, report.session, report.attempt, report.waiting, tasks
    files = await view.read_digest(shown)  # after the status: newer files are found at the next request
    return f"{blake2b(repr(standing).encode(), digest_size=8).hexdigest()}-{files}"


async def _wait_until_disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
