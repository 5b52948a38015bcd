"""Requests for a page that is open already: they are answered when what the page shows has changed.

So an open page is updated at once, and sends no requests while nothing changes. A held request costs a connection
and no thread. Events of a stream would not pass a ResourceManager's proxy, which forwards a response when
its buffer is full.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
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
#: Seconds between two checks of what is not announced, because it is written on other machines.
_POLL_SECONDS = 2.0
#: Requests held at once: each occupies a connection of the portal, or a thread of the ResourceManager as well. Further
#: ones are answered at once, so that these pages ask again every 1.5 seconds.
_MAX_HELD = 500
_MAX_HELD_BEHIND_PROXY = 8
#: Seconds for which further changes are awaited, so that those which belong together are shown together.
_SETTLE_SECONDS = 0.1


async def wait_for_job(request: Request, context: ServerContext, view: DirectoryJobView, shown: ShownFiles) -> str:
    """Return the version of what is shown of a job; if the client has this version, wait for another one."""

    async def reload() -> str:
        view.forget_status()
        return await _read_version(view, shown)

    with _hold(request, context) as is_held:
        if not is_held:
            return await _read_version(view, shown)
        folders = await view.list_announced_folders(shown)
        with context.watches.watch(folders, shown.includes) as watch:
            async with view.follow_output(shown):
                pause = _HOLD_SECONDS if folders and watch.works else _POLL_SECONDS
                return await _wait_for_other_version(request, reload, pause, watch.changed)


async def wait_for_list(request: Request, context: ServerContext, read_version: Callable[[], Awaitable[str]]) -> str:
    """Return the version of a list of jobs; if the client has this version, wait for another one.

    The index is filled by scans, so it is read again and again.
    """
    with _hold(request, context) as is_held:
        if not is_held:
            return await read_version()
        return await _wait_for_other_version(request, read_version, _POLL_SECONDS, asyncio.Event())


@contextmanager
def _hold(request: Request, context: ServerContext) -> Iterator[bool]:
    """Count a request as held inside the context; yields False if the client has no version, or too many are held."""
    limit = _MAX_HELD_BEHIND_PROXY if context.only else _MAX_HELD
    is_held = KNOWN in request.query_params and len(context.held) < limit
    if is_held:
        context.held.add(request)
    try:
        yield is_held
    finally:
        context.held.discard(request)


async def _wait_for_other_version(
    request: Request, read_version: Callable[[], Awaitable[str]], pause: float, changed: asyncio.Event
) -> str:
    """Return the current version; if it is the client's, wait for another one until the time is up or the client left.

    Args:
        pause: seconds after which to read it again, if `changed` is not set before.
    """
    deadline = clock.monotonic() + _HOLD_SECONDS
    disconnect = asyncio.ensure_future(_wait_until_disconnected(request))
    try:
        version = await read_version()
        while version == request.query_params.get(KNOWN) and (left := deadline - clock.monotonic()) > 0:
            waiting = asyncio.ensure_future(changed.wait())
            await asyncio.wait([waiting, disconnect], timeout=min(left, pause), return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if disconnect.done():
                raise ClientDisconnect
            if changed.is_set():
                await asyncio.sleep(_SETTLE_SECONDS)
                changed.clear()
            version = await read_version()
    finally:
        disconnect.cancel()
    return version


async def _read_version(view: DirectoryJobView, shown: ShownFiles) -> str:
    report = await view.status()
    tasks = [(task.state.value, task.session, task.try_) for task in report.tasks]
    # Not the sentence of `waiting`: it contains a duration that grows.
    hang = bool(report.waiting), report.stalled_task
    status_key = report.state.value, report.session, report.attempt, hang, tasks
    files = await view.read_digest(shown)  # after the status: newer files are found at the next request
    return f"{blake2b(repr(status_key).encode(), digest_size=8).hexdigest()}-{files}"


async def _wait_until_disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
