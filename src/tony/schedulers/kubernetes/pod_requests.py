"""Requests of an AM about the pods of its tasks, repeated until the API server has answered.

Pods are created and deleted only by the current AM attempt: see `am_pod`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Callable, Mapping

from tony.kube.api_client import ApiClient, Object, ObjectList
from tony.kube.errors import AnswerLostError, KubeApiError, KubeError
from tony.kube.object_watch import ObjectWatch
from tony.kube.resources import PODS
from tony.linux.thread_pools import to_thread
from tony.retry import Backoff
from tony.schedulers.kubernetes.am_pod import AmPod
from tony.schedulers.kubernetes.pod_table import PodStage, TaskPod
from tony.schedulers.kubernetes.pod_watch import trim_pod

#: Requests that create pods at one time: half of the threads of the AM.
_MAX_CONCURRENT_REQUESTS = 4
_BACKOFF = Backoff(first=0.5, most=30.0, jitter=0.5)
#: Age of the proof that there is no other AM attempt with which pods are created that have waited for their turn.
_PROOF_SECONDS = 1.0
#: Grace of a pod that is killed: with 0 the object would be removed before its processes are.
_KILL_GRACE_SECONDS = 1
#: What differs between refusals of pods for the same reason.
_OWN_NAME = re.compile(r'^pods "[^"]*" is forbidden: ')
#: Seconds within which the watch sees a created pod, unless that was deleted before.
_UNSEEN_SECONDS = 15.0
_log = logging.getLogger(__name__)


class PodRequests:
    """Requests about the pods with some labels.

    Args:
        client: repeats no request itself.
        is_permanent: whether an error will not pass.
        on_refused: called when a pod cannot be created yet, for its new `pending_reason`.

    Attributes:
        watch: reports the changes of created pods; None if nothing does yet.
    """

    def __init__(
        self,
        client: ApiClient,
        labels: Mapping[str, str],
        am_pod: AmPod,
        is_permanent: Callable[[KubeError], bool],
        on_refused: Callable[[], None],
    ) -> None:
        self._client, self._labels, self._am_pod = client, labels, am_pod
        self._is_permanent, self._on_refused = is_permanent, on_refused
        self._slots = asyncio.Semaphore(_MAX_CONCURRENT_REQUESTS)
        self._woken = asyncio.Event()
        self.watch: ObjectWatch | None = None

    def wake(self) -> None:
        """Give up requests for pods that are no longer CREATING, although they wait."""
        self._woken.set()
        self._woken = asyncio.Event()

    async def create(self, pod: TaskPod, build: Callable[[], Object]) -> bool:
        """Create a pod as soon as that is possible; return True if it may have been created.

        Args:
            pod: given up once it is no longer CREATING.
            build: returns its body; called late, since those of thousands that wait would take 9 KB of memory each.

        Raises:
            KubeApiError: the API server will never accept it.
        """
        is_sent = False
        body: Object = {}
        for pause in _BACKOFF:
            if not _is_needed(pod):
                break
            try:
                if await self._am_pod.confirm():
                    async with self._slots:
                        if not _is_needed(pod):
                            break
                        if await self._am_pod.confirm(_PROOF_SECONDS):
                            body = body or build()
                            await to_thread(self._client.create, PODS, body)
                            return self._expect(pod)
            except AnswerLostError as error:
                is_sent = True  # created or not: the next request finds out
                _log.info("%s", error)
            except KubeApiError as error:
                is_sent = is_sent or error.status >= 500  # it may have been created
                if error.is_existing:  # an answer was lost
                    return self._expect(pod)
                if self._is_permanent(error):
                    raise
                pod.pending_reason = _OWN_NAME.sub("", error.text)
                self._on_refused()
            except KubeError as error:
                _log.warning("%s", error)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    while _is_needed(pod):
                        await self._woken.wait()
        return is_sent

    def _expect(self, pod: TaskPod) -> bool:
        """Note that a pod was created: it may be deleted before the watch has seen it."""
        if self.watch:
            self.watch.expect(pod.name)
            asyncio.get_running_loop().call_later(_UNSEEN_SECONDS, self._list_unless_seen, pod)
        return True

    def _list_unless_seen(self, pod: TaskPod) -> None:
        if self.watch and not pod.is_seen:
            self.watch.list_again()

    async def list(self) -> ObjectList:
        """Return all pods with the labels, trimmed.

        Raises:
            KubeError: it is lasting.
        """
        for pause in _BACKOFF:
            try:
                return await to_thread(lambda: self._client.list(PODS, labels=self._labels, trim=trim_pod))
            except KubeError as error:
                _log.warning("%s", error)
                if self._is_permanent(error):
                    raise
            await asyncio.sleep(pause)
        raise AssertionError("delays have no end")

    async def delete(self, name: str) -> None:
        """Delete a pod, and kill its programs, unless a later AM attempt may have taken it over."""
        await delete_if_current(
            self._am_pod, lambda: self._client.delete(PODS, name, grace_seconds=_KILL_GRACE_SECONDS)
        )


async def delete_if_current(am_pod: AmPod, delete: Callable[[], None], *, is_optional: bool = False) -> None:
    """Delete an object as soon as that is possible, unless a later AM attempt may have taken it over.

    Args:
        delete: sends the request.
        is_optional: without the right to delete it, it stays.
    """
    for pause in _BACKOFF:
        try:
            if await am_pod.confirm():
                return await to_thread(delete)
            if am_pod.is_deleted:
                return
        except KubeError as error:
            if is_optional and isinstance(error, KubeApiError) and error.status == 403:
                return
            _log.warning("%s", error)
        await asyncio.sleep(pause)


def _is_needed(pod: TaskPod) -> bool:
    return pod.stage is PodStage.CREATING
