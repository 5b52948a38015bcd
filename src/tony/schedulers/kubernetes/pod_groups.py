"""PodGroups: gangs as the scheduler of Kubernetes knows them, where the cluster has them.

They are looked up by the API's discovery, not by the version of Kubernetes: v1.36 and v1.37 have them if the feature
gate GenericWorkload is on. Their fields that are used here are the same in `v1alpha2` (v1.36) and `v1beta1` (v1.37).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from tony.errors import SchedulerError
from tony.kube.api_client import ApiClient, Object
from tony.kube.denials import Denials
from tony.kube.errors import KubeApiError, KubeError
from tony.kube.resources import ApiResource
from tony.linux.thread_pools import to_thread
from tony.retry import Backoff
from tony.schedulers.job_store.job_objects import build_labels, build_owner
from tony.schedulers.kubernetes.am_pod import AmPod
from tony.schedulers.kubernetes.pod_requests import delete_if_current
from tony.schedulers.kubernetes.pod_table import Gang

POD_GROUP_API, POD_GROUPS = "scheduling.k8s.io", "podgroups"
#: Versions whose PodGroup has the fields that are used here, the newest first.
_VERSIONS = ("v1beta1", "v1alpha2")
NO_POD_GROUPS = "the cluster has no PodGroup of a version that tony knows (v1beta1 or v1alpha2 of scheduling.k8s.io)"
_PART = "gang"
_BACKOFF = Backoff(first=0.5, most=30.0, jitter=0.5)
_log = logging.getLogger(__name__)


def find_pod_groups(client: ApiClient) -> ApiResource | None:
    """Return PodGroup in a version that tony knows; None if the cluster has none."""
    version = client.find_version(POD_GROUP_API, POD_GROUPS, _VERSIONS)
    if version is None:
        return None
    return ApiResource(group=POD_GROUP_API, version=version, plural=POD_GROUPS, kind="PodGroup")


def build_pod_group(resource: ApiResource, job: str, owner: str, gang: Gang) -> Object:
    """Return the PodGroup of a gang.

    Args:
        owner: uid of the Job.
    """
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": gang.name,
            "labels": build_labels(job, _PART),
            "ownerReferences": [build_owner(job, owner)],
        },
        "spec": {"schedulingPolicy": {"gang": {"minCount": gang.minimum}}},
    }


class PodGroupRequests:
    """Requests of an AM about its PodGroups, repeated until the API server has answered.

    Args:
        client: repeats no request itself.
        job: the job's id.
        owner: uid of its Job.
        is_required: without PodGroups the job cannot run; else its pods are started one by one.
    """

    def __init__(self, client: ApiClient, job: str, owner: str, am_pod: AmPod, *, is_required: bool) -> None:
        self._client, self._job, self._owner, self._am_pod = client, job, owner, am_pod
        self._is_required = is_required
        self._resource: asyncio.Task[ApiResource | None] | None = None
        self._created: dict[Gang, asyncio.Task[bool]] = {}

    async def create(self, gang: Gang, is_needed: Callable[[], bool]) -> bool:
        """Create the PodGroup of a gang, once for all of its pods; return False if there is none.

        Args:
            is_needed: asked before each request.

        Raises:
            SchedulerError: the job needs it, and cannot have it.
        """
        if gang not in self._created:
            self._created[gang] = asyncio.ensure_future(self._create(gang, is_needed))
        return await asyncio.shield(self._created[gang])

    async def _create(self, gang: Gang, is_needed: Callable[[], bool]) -> bool:
        self._resource = self._resource or asyncio.ensure_future(self._find_resource())
        try:
            resource = await self._resource
        except KubeApiError as error:
            if self._is_required:
                raise
            _log.warning("%s; pods are started one by one", error)
            return False
        if resource is None:
            if self._is_required:
                raise SchedulerError(f'{NO_POD_GROUPS}, which `gang = "native"` needs')
            return False
        body = build_pod_group(resource, self._job, self._owner, gang)
        for pause in _BACKOFF:
            if not is_needed():
                break
            try:
                if await self._am_pod.confirm():
                    await to_thread(self._client.create, resource, body)
                    return True
            except KubeApiError as error:
                if error.is_existing:  # an answer was lost
                    return True
                if error.status == 403 and not self._is_required:
                    _log.warning("%s; its pods are started one by one", error)
                    return False
                if not error.is_transient and not error.is_unauthorized:
                    raise
                _log.warning("%s", error)
            except KubeError as error:
                _log.warning("%s", error)
            await asyncio.sleep(pause)
        return False

    async def _find_resource(self) -> ApiResource | None:
        """Return PodGroup in a version that tony knows; None if the cluster has none.

        Raises:
            KubeApiError: the service account may not ask.
        """
        denials = Denials()
        for pause in _BACKOFF:
            try:
                return await to_thread(find_pod_groups, self._client)
            except KubeError as error:
                is_denied = isinstance(error, KubeApiError) and error.status == 403
                if is_denied and denials.are_permanent():
                    raise
                _log.warning("%s", error)
            await asyncio.sleep(pause)
        raise AssertionError("delays have no end")

    async def delete(self, gang: Gang) -> None:
        """Delete the PodGroup of a gang whose pods have ended; nothing happens if it has none."""
        created = self._created.pop(gang, None)
        if created and not await _wait_for(created):
            return
        self._resource = self._resource or asyncio.ensure_future(self._find_resource())
        try:
            resource = await self._resource
        except KubeApiError:  # it may not ask, so it has created none
            return
        if resource is None:
            return
        # Without the right to delete it, it is removed with the Job.
        await delete_if_current(self._am_pod, partial(self._client.delete, resource, gang.name), is_optional=True)


async def _wait_for(created: asyncio.Task[bool]) -> bool:
    """Return True if there may be a PodGroup."""
    await asyncio.wait({created})
    return created.exception() is not None or created.result()
