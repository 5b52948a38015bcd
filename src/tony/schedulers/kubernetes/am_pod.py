"""Proof that an AM attempt is the current one: the API server has its pod, and is not deleting it.

Another AM attempt is started in a pod of its own, once this one is being deleted, or in this pod, once this process has
exited. So as long as the pod was there a moment ago there is no other. Silence proves nothing: a pod whose node is cut
off may have been deleted.
"""

from __future__ import annotations

import asyncio
import logging

from tony import clock
from tony.kube.api_client import ApiClient
from tony.kube.errors import KubeApiError, KubeError
from tony.kube.resources import JOBS, PODS
from tony.linux.thread_pools import to_thread
from tony.retry import Backoff
from tony.schedulers.allocator_interface import SignalEffect
from tony.schedulers.kubernetes.job_end import build_end_note, read_end_reason
from tony.schedulers.kubernetes.job_secrets import delete_secrets

#: Seconds between two requests.
_INTERVAL_SECONDS = 8.0
_BACKOFF = Backoff(first=0.3, most=5.0, jitter=0.5)
#: Requests for what a signal means: the kubelet does not wait for long.
_MAX_TRIES = 4
_log = logging.getLogger(__name__)


class AmPod:
    """The pod of this AM attempt.

    Args:
        name: its name.
        valid_seconds: how long an answer of the API server is a proof.

    Attributes:
        is_deleted: it is being deleted, or no longer exists.
        is_left: set once this AM attempt has to leave the job to the next one.
    """

    def __init__(self, client: ApiClient, job: str, name: str, valid_seconds: float) -> None:
        self._client, self._job, self._name, self._valid_seconds = client, job, name, valid_seconds
        self._proven_at: float | None = None
        self._looking = asyncio.Lock()
        self.is_deleted = False
        self.is_left = asyncio.Event()

    @property
    def is_current(self) -> bool:
        """Return True if certainly no other AM attempt runs."""
        proven_at = self._proven_at
        return not self.is_deleted and proven_at is not None and clock.monotonic() - proven_at < self._valid_seconds

    async def watch(self) -> None:
        """Look for the pod again and again, until it is deleted."""
        while not self.is_deleted:
            await self.confirm()
            await asyncio.sleep(_INTERVAL_SECONDS)
        for pause in _BACKOFF:
            if (effect := await self._read_job()) is not None:
                self._leave(effect)  # if the job ends, the signal of the kubelet says so
                return
            await asyncio.sleep(pause)

    async def confirm(self, max_age: float = 0.0) -> bool:
        """Return True if no other AM attempt was running when this was called, False if that is not known.

        Args:
            max_age: seconds before the call at which that may have been found out.
        """
        oldest = clock.monotonic() - max_age
        async with self._looking:
            if self._proven_at is None or self._proven_at < oldest:
                await self._look()
        return not self.is_deleted and self._proven_at is not None and self._proven_at >= oldest

    async def find_effect(self) -> SignalEffect:
        """Return what a signal means: END_JOB if the Job is being deleted or ended, else the pod moves to another node.

        Then this AM attempt ends at once: the next one is being started.
        """
        effect = None
        for _, pause in zip(range(_MAX_TRIES), _BACKOFF, strict=False):
            if (effect := await self._read_job()) is not None:
                break
            await asyncio.sleep(pause)
        return self._leave(effect or SignalEffect.LEAVE_JOB)

    async def forbid_replacement(self, kill_reason: str) -> bool:
        """Have the Job end when this pod does; return False if only the next AM attempt can request that.

        Args:
            kill_reason: why a user has killed the job; empty if none has.
        """
        try:
            await to_thread(forbid_replacement, self._client, self._job, kill_reason)
        except KubeError as error:
            _log.warning("%s", error)
            return False
        return True

    async def delete_secrets(self) -> None:
        """Delete the job's Secrets: no further AM attempt will read them. What fails is deleted with the Job."""
        for tries, pause in enumerate(_BACKOFF, 1):
            try:
                return await to_thread(delete_secrets, self._client, self._job)
            except KubeError as error:
                _log.warning("%s", error)
                if tries == _MAX_TRIES or (isinstance(error, KubeApiError) and not error.is_transient):
                    return None
            await asyncio.sleep(pause)

    def _leave(self, effect: SignalEffect) -> SignalEffect:
        if effect is SignalEffect.LEAVE_JOB:
            self.is_left.set()
        return effect

    async def _look(self) -> None:
        started_at = clock.monotonic()  # the answer may be as old as the request
        try:
            self.is_deleted = await to_thread(is_pod_deleted, self._client, self._name)
        except KubeError as error:
            _log.warning("%s", error)
            return
        self._proven_at = started_at
        if self.is_deleted:
            _log.warning("the pod %s of this application master is being deleted", self._name)

    async def _read_job(self) -> SignalEffect | None:
        """Return what the end of the pod means for the job; None if that is not known."""
        try:
            found = await to_thread(self._client.get, JOBS, self._job)
        except KubeApiError as error:
            return SignalEffect.END_JOB if error.is_missing else None
        except KubeError:
            return None
        is_ending = found["metadata"].get("deletionTimestamp") or found["spec"].get("activeDeadlineSeconds")
        return SignalEffect.END_JOB if is_ending else SignalEffect.LEAVE_JOB


def is_pod_deleted(client: ApiClient, name: str) -> bool:
    """Return True if a pod is being deleted, or no longer exists.

    Raises:
        KubeError: there is no answer.
    """
    found = client.list(PODS, name=name, metadata_only=True).items
    return not found or bool(found[0]["metadata"].get("deletionTimestamp"))


def forbid_replacement(client: ApiClient, job: str, kill_reason: str = "") -> None:
    """Make a Job fail when its pod does, instead of starting another one. A client's reason for its end is kept.

    A limit below the number of pods that have failed before would end it now, and delete its pod.

    Args:
        kill_reason: why a user has killed the job; empty if none has.

    Raises:
        KubeError: there is no answer, or no right.
    """
    found = client.get(JOBS, job)
    status = found.get("status") or {}
    uncounted = (status.get("uncountedTerminatedPods") or {}).get("failed") or ()
    limit = int(status.get("failed") or 0) + len(uncounted)
    note = {} if read_end_reason(found) else build_end_note(kill_reason)
    client.patch(JOBS, job, {"metadata": note, "spec": {"backoffLimit": limit}})
