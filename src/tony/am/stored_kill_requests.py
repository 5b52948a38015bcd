"""Carries out kill requests that were stored while no AM answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tony.core.events import Event, KillRequested
from tony.history.kill_request import KillRequest, load_kill_request
from tony.model.actor import Actor
from tony.model.layout import JobFolder

#: Seconds between checks: a client may have found the AM suspended, or not yet listening.
_POLL_SECONDS = 1.0


async def apply_stored_kill_requests(folder: JobFolder, feed: Callable[[Event], None]) -> None:
    """Feed a stored request, and later ones. Runs until it is cancelled; start it before the job runs."""
    obeyed: KillRequest | None = None
    while True:
        if folder.kill_request.exists():  # cheap; most jobs never have such a file
            request = load_kill_request(folder)
            if request and request != obeyed:
                feed(KillRequested(actor=Actor(request.actor), now=request.now))
                obeyed = request
        await asyncio.sleep(_POLL_SECONDS)
