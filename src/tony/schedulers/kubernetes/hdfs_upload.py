"""Sends large objects of a submission to HDFS, with the tokens of its job."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping

from tony.errors import InfraError
from tony.kube.api_client import ApiClient, parse_time
from tony.kube.resources import JOBS
from tony.schedulers.job_store.job_objects import MANAGED_LABELS
from tony.schedulers.kubernetes.object_upload import ObjectUpload
from tony.schedulers.kubernetes.staging_hdfs import StagingHdfs
from tony.storage.hdfs.cluster_cache import ClusterCache, UploadRequest

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def upload_to_hdfs(location: StagingHdfs, upload: ObjectUpload) -> Iterator[Mapping[str, str]]:
    """See `upload_objects`. Old objects are removed as those of jobs on YARN are, at most once a day."""
    assert upload.access is not None, "its file system is among those of the job"
    files = upload.access.open_files(location.file_system)
    cache = ClusterCache(
        files, location.file_system or "hdfs://", location.path, "scheduler.kubernetes.staging", upload.note_progress
    )
    requests = [
        UploadRequest(path=path, name=digest, size=path.stat().st_size) for digest, path in upload.paths.items()
    ]
    with contextlib.closing(cache):
        cache.provide(requests)
        if cache.eviction_is_due:
            try:
                cache.evict(_find_oldest_job(upload.client))
            except InfraError as error:  # the next submission does it
                _log.info("cannot remove old objects from %s: %s", location, error)
    yield {}


def _find_oldest_job(client: ApiClient) -> int | None:
    """Return when the oldest job of the namespace was created, milliseconds since 1970."""
    jobs = client.list(JOBS, labels=MANAGED_LABELS, metadata_only=True).items
    return min((int(parse_time(job["metadata"]["creationTimestamp"]) * 1000) for job in jobs), default=None)
