"""Obeying what was asked of a job while no application master answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tony.core.events import Event, UserCommand
from tony.history.kill_request import KillRequest, load_kill_request
from tony.model.layout import JobFolder

#: Seconds between looks: somebody may have found us standing still, or not listening yet.
_LOOK_AGAIN = 1.0


async def apply_pending_commands(folder: JobFolder, feed: Callable[[Event], None]) -> None:
    """Feeds what is kept, and what comes later. Runs until it is cancelled; begins before anything else happens."""
    obeyed: KillRequest | None = None
    while True:
        if folder.kill_request.exists():  # one look costs nothing; most jobs never have such a file
            request = load_kill_request(folder)
            if request and request != obeyed:
                feed(UserCommand(actor=request.actor, what="kill-now" if request.now else "kill"))
                obeyed = request
        await asyncio.sleep(_LOOK_AGAIN)
