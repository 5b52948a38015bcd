"""Where the files of a job go: to ConfigMaps what the API takes, to the claim of `staging` what is larger."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tony.errors import ConfigError, InfraError, Problem
from tony.kube.api_client import ApiClient, Object, parse_time
from tony.kube.errors import KubeApiError, KubeError
from tony.kube.resources import PERSISTENT_VOLUME_CLAIMS
from tony.model.staged_files import StagedItem, StagedJob
from tony.model.submission_record import JobRecord
from tony.schedulers.kubernetes.cancellation import Cancellation
from tony.schedulers.kubernetes.manifests import build_staging_pod
from tony.schedulers.kubernetes.object_upload import (
    MAX_STAGED_BYTES,
    SharedObjects,
    count_pieces,
    find_large_objects,
)
from tony.schedulers.kubernetes.settings import KubernetesSettings
from tony.schedulers.kubernetes.staging_claim import StagingClaim
from tony.schedulers.kubernetes.staging_upload import StagingPod
from tony.storage.cache.object_cache import Cache, Stored
from tony.units import format_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFiles:
    """The files of a job.

    Attributes:
        runtime: the archive of tony itself.
        paths: digest -> a local file with the object, that archive included.
        large: digests of the objects that go to the claim.
    """

    runtime: Stored
    paths: Mapping[str, Path]
    large: Collection[str]

    @property
    def pieces(self) -> Mapping[str, int]:
        """Digest -> number of ConfigMaps of each object; 0: it is in the claim."""
        return {
            digest: 0 if digest in self.large else count_pieces(path.stat().st_size)
            for digest, path in self.paths.items()
        }

    @contextlib.contextmanager
    def provide(
        self, client: ApiClient, record: JobRecord, settings: KubernetesSettings, created: Object, stop: Cancellation
    ) -> Iterator[None]:
        """Send what the namespace does not have, and remove what it has had for long without a use.

        The pod that received files lives as long as the context, in which the Job is to be released: it tells other
        submissions that this one is under way.

        Args:
            created: the Job, suspended, which names the objects.
            stop: set to stop it.

        Raises:
            SchedulerError: the API server refuses or cannot be reached, or the claim cannot be written;
                or it was stopped.
        """
        shared = SharedObjects(client, parse_time(created["metadata"]["creationTimestamp"]))
        for digest, path in self.paths.items():
            stop.check()
            if digest not in self.large:
                shared.upload(digest, path)
        claim = StagingClaim.from_text(settings.staging) if self.large else None
        missing = [digest for digest in self.large if claim and not shared.is_staged(digest, claim)]
        with contextlib.suppress(KubeError):  # the next submission does it
            shared.delete_unused()
        if claim and missing:
            runtime = (self.runtime.digest, count_pieces(self.runtime.size))
            pod = build_staging_pod(record, settings, runtime, claim, str(created["metadata"]["uid"]))
            owner = _find_claim(client, claim)
            with StagingPod(client, pod, stop) as receiver:
                for digest in missing:
                    receiver.send(digest, self.paths[digest])
                    shared.record_staged(digest, claim, owner)
                with contextlib.suppress(InfraError, OSError, EOFError):
                    receiver.remove_unused({*self.large, *shared.list_staged(claim)})
                yield
        else:
            yield


def find_files(record: JobRecord, cache: Cache, runtime: Stored, settings: KubernetesSettings) -> JobFiles:
    """Return where the files of a job go.

    Raises:
        ConfigError: they are too large for the API, and there is no claim.
    """
    items = _list_items(record.staged)
    paths = {digest: cache.find_object(digest) for digest in (runtime.digest, *items)}
    sizes = {digest: item.size for digest, item in items.items()}
    large = find_large_objects(sizes, runtime.size)
    if large and not settings.staging:
        parts = [f"{items[digest].name} {format_bytes(size)}" for digest, size in sizes.items()]
        total = format_bytes(sum(sizes.values()) + runtime.size)
        text = f"the job's files have {total} ({', '.join([*parts, f'tony {format_bytes(runtime.size)}'])}); "
        text += f"the API of the cluster takes {format_bytes(MAX_STAGED_BYTES)}. Set scheduler.kubernetes.staging to a "
        text += 'volume of the cluster, such as "pvc:CLAIM", leave files out (.tonyignore), or use an image with them.'
        raise ConfigError([Problem(key="source", message=text)])
    return JobFiles(runtime=runtime, paths=paths, large=large)


def count_object_pieces(staged: StagedJob, settings: KubernetesSettings) -> Mapping[str, int]:
    """Return the number of ConfigMaps of each object of a job that is not submitted; 0: it is in the claim."""
    sizes = {digest: item.size for digest, item in _list_items(staged).items()}
    large = find_large_objects(sizes, 0) if settings.staging else ()
    return {digest: 0 if digest in large else count_pieces(size) for digest, size in sizes.items()}


def _list_items(staged: StagedJob) -> Mapping[str, StagedItem]:
    """Return an item for each object that the client sends, by digest."""
    items = [item for role in staged.roles.values() for item in role.items if not item.in_place]
    return {item.digest: item for item in items}


def _find_claim(client: ApiClient, claim: StagingClaim) -> Object | None:
    """Return the claim as an owner; None if the user may not read it."""
    try:
        uid = client.get(PERSISTENT_VOLUME_CLAIMS, claim.name)["metadata"]["uid"]
    except KubeApiError as error:
        if error.status != 403:
            raise
        return None
    kind = PERSISTENT_VOLUME_CLAIMS
    return {"apiVersion": kind.api_version, "kind": kind.kind, "name": claim.name, "uid": uid}
