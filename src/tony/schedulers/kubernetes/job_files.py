"""Where the files of a job go: to ConfigMaps what the API takes, to the location of `staging` what is larger."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tony.errors import ConfigError, Problem
from tony.kube.api_client import ApiClient, Object, parse_time
from tony.kube.errors import KubeError
from tony.model.submission_record import JobRecord
from tony.schedulers.client_interface import PreparedJob
from tony.schedulers.kubernetes.cancellation import Cancellation
from tony.schedulers.kubernetes.object_upload import ObjectUpload, upload_objects
from tony.schedulers.kubernetes.settings import KubernetesSettings
from tony.schedulers.kubernetes.shared_objects import (
    MAX_STAGED_BYTES,
    SharedObjects,
    count_pieces,
    find_large_objects,
)
from tony.schedulers.kubernetes.staging_location import StagingLocation
from tony.schedulers.shipping.code_archives import store_modules, store_plug_in
from tony.storage.cache.object_cache import Cache, Stored
from tony.units import format_bytes

if TYPE_CHECKING:
    from tony.schedulers.kubernetes.hadoop_access import HadoopAccess


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFiles:
    """The files of a job.

    Attributes:
        runtime: the archive of tony itself.
        plug_in: that of a user's framework; None if the framework is one of tony's.
        paths: digest -> a local file with the object, these archives included.
        large: digests of the objects that go to the location.
        location: None if none does.
    """

    runtime: Stored
    plug_in: Stored | None
    paths: Mapping[str, Path]
    large: Collection[str]
    location: StagingLocation | None

    @property
    def pieces(self) -> Mapping[str, int]:
        """Digest -> number of ConfigMaps of each object; 0: it is in the location of `staging`."""
        return {
            digest: 0 if digest in self.large else count_pieces(path.stat().st_size)
            for digest, path in self.paths.items()
        }

    @contextlib.contextmanager
    def provide(
        self,
        client: ApiClient,
        job: PreparedJob,
        settings: KubernetesSettings,
        created: Object,
        access: HadoopAccess | None,
        stop: Cancellation,
    ) -> Iterator[Mapping[str, str]]:
        """Send what the namespace does not have, and remove what it has had for long without a use.

        The Job is to be released in the context, which gives digest -> image of the objects that are in a registry.

        Args:
            created: the Job, suspended, which names the objects.
            access: to the HDFS file systems of the job; None if it uses none.
            stop: set to stop it.

        Raises:
            SchedulerError: the API server refuses or cannot be reached, or the location cannot be written;
                or it was stopped.
        """
        shared = SharedObjects(client, parse_time(created["metadata"]["creationTimestamp"]))
        for digest, path in self.paths.items():
            stop.check()
            if digest not in self.large:
                shared.upload(digest, path)
        upload = ObjectUpload(
            paths={digest: self.paths[digest] for digest in self.large},
            client=client,
            shared=shared,
            record=job.record,
            settings=settings,
            runtime=(self.runtime.digest, count_pieces(self.runtime.size)),
            created=created,
            access=access,
            stop=stop,
            on_notice=job.on_notice,
        )
        with upload_objects(self.location, upload) if self.location else contextlib.nullcontext({}) as images:
            with contextlib.suppress(KubeError):  # the next submission does it
                shared.delete_unused()
            yield images


def find_files(record: JobRecord, cache: Cache, settings: KubernetesSettings) -> JobFiles:
    """Return where the files of a job go.

    Raises:
        ConfigError: they are too large for the API, and no location is set; or a framework cannot be shipped.
    """
    runtime, plug_in = store_modules(cache), store_plug_in(cache, record)
    archives = {"tony": runtime, "its framework": plug_in} if plug_in else {"tony": runtime}
    archives_size = sum(each.size for each in archives.values())
    roles = record.staged.roles.values()
    items = {item.digest: item for role in roles for item in role.items if not item.in_place}
    paths = {digest: cache.find_object(digest) for digest in (*(each.digest for each in archives.values()), *items)}
    sizes = {digest: item.size for digest, item in items.items()}
    large = find_large_objects(sizes, archives_size)
    location = settings.staging_location if large else None
    if large and not location:
        parts = [f"{items[digest].name} {format_bytes(size)}" for digest, size in sizes.items()]
        parts += [f"{name} {format_bytes(each.size)}" for name, each in archives.items()]
        text = f"the job's files have {format_bytes(sum(sizes.values()) + archives_size)} ({', '.join(parts)}); "
        text += f"the API of the cluster takes {format_bytes(MAX_STAGED_BYTES)}. Set scheduler.kubernetes.staging to a "
        text += 'location for them, such as "pvc:CLAIM", leave files out (.tonyignore), or use an image with them.'
        raise ConfigError([Problem(key="source", message=text)])
    return JobFiles(runtime=runtime, plug_in=plug_in, paths=paths, large=large, location=location)
