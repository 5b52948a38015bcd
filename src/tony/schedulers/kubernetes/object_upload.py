"""Sends large objects of a submission to the location of `staging`; a function for each kind of location."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tony.errors import InfraError
from tony.kube.api_client import ApiClient, Object, parse_time
from tony.kube.errors import KubeApiError, KubeError
from tony.kube.resources import PERSISTENT_VOLUME_CLAIMS
from tony.model.submission_record import JobRecord
from tony.schedulers.kubernetes.cancellation import Cancellation
from tony.schedulers.kubernetes.incomplete_jobs import note_alive
from tony.schedulers.kubernetes.manifests import build_staging_pod
from tony.schedulers.kubernetes.settings import KubernetesSettings
from tony.schedulers.kubernetes.shared_objects import SharedObjects
from tony.schedulers.kubernetes.staging_claim import StagingClaim
from tony.schedulers.kubernetes.staging_hdfs import StagingHdfs
from tony.schedulers.kubernetes.staging_location import StagingLocation
from tony.schedulers.kubernetes.staging_pod import StagingPod
from tony.schedulers.kubernetes.staging_registry import StagingRegistry
from tony.schedulers.kubernetes.staging_s3 import StagingS3
from tony.units import format_size

if TYPE_CHECKING:
    from tony.schedulers.kubernetes.hadoop_access import HadoopAccess

#: Seconds between two notes of a submission that it is under way.
_NOTE_SECONDS = 60.0
#: Seconds without such a note before its Job is in danger: others delete it 600 s after the last one.
_MAX_SILENCE_SECONDS = 480.0


@dataclass(slots=True, kw_only=True)
class ObjectUpload:
    """The large objects of a submission.

    Attributes:
        paths: digest -> a local file with the object.
        shared: the ConfigMaps of the namespace.
        runtime: digest and number of pieces of tony's archive.
        created: the Job, suspended, which names the objects.
        access: to the HDFS file systems of the job; None if it uses none.
        stop: set to stop it.
        on_notice: see `PreparedJob`.
    """

    paths: Mapping[str, Path]
    client: ApiClient
    shared: SharedObjects
    record: JobRecord
    settings: KubernetesSettings
    runtime: tuple[str, int]
    created: Object
    access: HadoopAccess | None
    stop: Cancellation
    on_notice: Callable[[str], None]
    _started_at: float = field(default_factory=lambda: time.monotonic())
    _noted_at: float = field(default_factory=lambda: time.monotonic())
    _tried_at: float = field(default_factory=lambda: time.monotonic())

    def announce(self, digest: str) -> None:
        """Say that an object is sent now, which may take long."""
        size = self.paths[digest].stat().st_size
        self.on_notice(f"sending {format_size(size)} to {self.settings.staging_location}")

    def note_progress(self) -> None:
        """Tell other submissions now and then that this one is under way; to be called while it sends.

        Raises:
            SchedulerError: it is to stop; or its Job was deleted, or may be soon, as the API server does not respond.
        """
        self.stop.check()
        now = time.monotonic()
        if now - self._tried_at > _NOTE_SECONDS:
            created_at = parse_time(self.created["metadata"]["creationTimestamp"])
            try:
                note_alive(self.client, self.created, created_at + now - self._started_at)
                self._noted_at = now
            except KubeError as error:
                is_deleted = isinstance(error, KubeApiError) and error.is_missing
                if is_deleted or now - self._noted_at > _MAX_SILENCE_SECONDS:
                    raise
            self._tried_at = time.monotonic()


def upload_objects(location: StagingLocation, upload: ObjectUpload) -> AbstractContextManager[Mapping[str, str]]:
    """Send the objects that a location does not have, on entering, and remove what was not used there for long.

    The Job is released in the context, which gives digest -> image of the objects that pods mount as images.

    Raises:
        SchedulerError, StorageError: the location cannot be written; or the submission was stopped.
    """
    match location:  # the imports are late: few jobs use these locations
        case StagingHdfs():
            from tony.schedulers.kubernetes.hdfs_upload import upload_to_hdfs

            return upload_to_hdfs(location, upload)
        case StagingS3():
            from tony.schedulers.kubernetes.s3_upload import upload_to_s3

            return upload_to_s3(location, upload)
        case StagingRegistry():
            from tony.schedulers.kubernetes.registry_upload import upload_to_registry

            return upload_to_registry(location, upload)
        case StagingClaim():
            return _upload_to_claim(location, upload)
    raise AssertionError(f"{location} is of no known kind")


@contextlib.contextmanager
def _upload_to_claim(location: StagingLocation, upload: ObjectUpload) -> Iterator[Mapping[str, str]]:
    """Send objects through a pod.

    It lives as long as the context: it tells other submissions that this one is under way.
    """
    assert isinstance(location, StagingClaim)
    shared, client = upload.shared, upload.client
    missing = [digest for digest in upload.paths if not shared.is_staged(digest, location)]
    if not missing:
        yield {}
        return
    owner = str(upload.created["metadata"]["uid"])
    pod = build_staging_pod(upload.record, upload.settings, upload.runtime, location, owner)
    reference = _find_claim(client, location)
    with StagingPod(client, pod, upload.stop) as receiver:
        for digest in missing:
            upload.announce(digest)
            receiver.send(digest, upload.paths[digest])
            shared.record_staged(digest, location, reference)
        with contextlib.suppress(InfraError, OSError, EOFError):
            receiver.remove_unused({*upload.paths, *shared.list_staged(location)})
        yield {}


def _find_claim(client: ApiClient, location: StagingClaim) -> Object | None:
    """Return the claim as an owner; None if the user may not read it."""
    try:
        uid = client.get(PERSISTENT_VOLUME_CLAIMS, location.name)["metadata"]["uid"]
    except KubeApiError as error:
        if error.status != 403:
            raise
        return None
    kind = PERSISTENT_VOLUME_CLAIMS
    return {"apiVersion": kind.api_version, "kind": kind.kind, "name": location.name, "uid": uid}
