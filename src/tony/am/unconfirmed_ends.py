"""Proves that containers have ended whose end the scheduler cannot confirm: those of nodes that were given up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Set

from tony.core.application import Application
from tony.core.events import ContainerEnded, EndConfirmation, Event

#: Seconds between two attempts to confirm the end of containers on nodes that were given up.
_PROOF_PAUSE_SECONDS = 3.0
#: Seconds within which the watchdog of a dead executor stops its program.
_WATCHDOG_PAUSE_SECONDS = 1.0


class UnconfirmedEnds:
    """The containers of a job whose end is not confirmed.

    Args:
        same_host: the scheduler knows the processes of every container.
    """

    def __init__(self, app: Application, feed: Callable[[Event], None], *, same_host: bool) -> None:
        self._app = app
        self._feed = feed
        self._same_host = same_host
        self._exist = asyncio.Event()
        if any(held.is_end_unconfirmed for held in app.state.containers.values()):
            self._exist.set()

    def on_unconfirmed(self) -> None:
        """Handle that the end of a container is not confirmed."""
        self._exist.set()

    async def report_missing(self, found: Set[str]) -> None:
        """Report containers that the scheduler does not know as unconfirmed: their node may have been given up.

        Args:
            found: the containers that it knows.
        """
        state = self._app.state
        missing = {
            task.container: task.listens
            for task in state.tasks.values()
            if task.living and task.container and task.container not in found and (task.listens or not self._same_host)
        }
        proven = await _find_ended(missing)
        for container in missing.keys() - proven:
            held = state.containers.get(container)
            if held and not held.is_end_unconfirmed:
                cause = f"the cluster no longer knows it, and its end on {held.host} is not confirmed"
                unconfirmed = EndConfirmation.UNCONFIRMED
                self._feed(ContainerEnded(container=container, cause=cause, blameless=True, confirmation=unconfirmed))

    async def confirm(self) -> None:
        """Try to prove the ends, instead of waiting for leases, until cancelled."""
        while True:
            await self._exist.wait()
            await asyncio.sleep(_PROOF_PAUSE_SECONDS)
            state = self._app.state
            given_up = [held for held in state.containers.values() if held.is_end_unconfirmed and held.task]
            places = {held.id: state.tasks[held.task].listens for held in given_up if held.task}
            for container in await _find_ended(places):
                cause = "its node was given up, and its executor has exited there"
                self._feed(ContainerEnded(container=container, cause=cause, blameless=True))
            if not given_up:
                self._exist.clear()


async def _find_ended(places: Mapping[str, str]) -> Set[str]:
    """Return the containers whose host twice refuses a connection to the port of their executor.

    The pause gives the watchdog of an executor that has just died time to stop its program.
    """
    from tony.am.reattach_caller import find_refused  # late: most jobs have a single AM attempt

    asked = {container: place for container, place in places.items() if place}
    for pause in (0.0, _WATCHDOG_PAUSE_SECONDS):
        if asked:
            await asyncio.sleep(pause)
            refused = await find_refused(list(asked.values()))
            asked = {name: asked[name] for name, is_refused in zip(asked, refused, strict=True) if is_refused}
    return asked.keys()
