"""Proof that an AM attempt is the current one: the API server has its pod, and is not deleting it.

Another AM attempt is started in a pod of its own, once this one is deleted, or in this pod, once this process has
exited. So as long as the pod was there a moment ago there is no other. Silence proves nothing: a pod whose node is cut
off may have been deleted by force.
"""

from __future__ import annotations

import asyncio
import logging

from tony import clock
from tony.kube.api_client import ApiClient
from tony.kube.errors import KubeError
from tony.kube.resources import PODS
from tony.linux.thread_pools import to_thread

#: Seconds between two requests.
_INTERVAL_SECONDS = 8.0
_log = logging.getLogger(__name__)


class OwnPod:
    """The pod of this AM attempt.

    Args:
        name: its name.
        valid_seconds: how long an answer of the API server is a proof.
    """

    def __init__(self, client: ApiClient, name: str, valid_seconds: float) -> None:
        self._client, self._name, self._valid_seconds = client, name, valid_seconds
        self._proven_at: float | None = None
        self._is_deleted = False

    @property
    def is_current(self) -> bool:
        """Return True if certainly no other AM attempt runs."""
        proven_at = self._proven_at
        return not self._is_deleted and proven_at is not None and clock.monotonic() - proven_at < self._valid_seconds

    async def watch(self) -> None:
        """Look for the pod again and again, until it is deleted."""
        while not self._is_deleted:
            await self._look()
            await asyncio.sleep(_INTERVAL_SECONDS)

    async def _look(self) -> None:
        started_at = clock.monotonic()  # the answer may be as old as the request
        try:
            found = await to_thread(lambda: self._client.list(PODS, name=self._name, metadata_only=True).items)
        except KubeError as error:
            _log.warning("%s", error)
            return
        self._is_deleted = not found or bool(found[0]["metadata"].get("deletionTimestamp"))
        self._proven_at = started_at
        if self._is_deleted:
            _log.warning(
                "the pod %s of this application master is being deleted: another AM attempt follows", self._name
            )
