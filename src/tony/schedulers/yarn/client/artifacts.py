"""Everything that a job needs in the cluster's file system: tony's archives, and the staged objects of its tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tony.errors import ConfigError, Problem
from tony.model.staged_files import Placement, StagedItem, StagedJob
from tony.model.submission_record import JobRecord
from tony.schedulers.shipping import OWN_PYTHON
from tony.schedulers.shipping.code_archives import store_pages, store_plug_in, store_runtime
from tony.schedulers.yarn.launch_payload import INTERPRETER, PLUG_IN, RUNTIME, Uploaded
from tony.schedulers.yarn.settings import ENVIRONMENT, PYTHON, YarnSettings
from tony.storage.cache.object_cache import Cache, Stored
from tony.storage.hdfs.cluster_cache import UploadRequest
from tony.storage.staging.remote_files_interface import RemoteFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifacts:
    """Files to upload.

    Attributes:
        archives: see `JobPayload.archives`.
        pages: None if the packages are not installed here.
        objects: digest -> the staged object.
    """

    archives: Mapping[str, UploadRequest]
    pages: UploadRequest | None
    objects: Mapping[str, UploadRequest]

    @property
    def uploads(self) -> tuple[UploadRequest, ...]:
        """All of them."""
        return (*self.archives.values(), *((self.pages,) if self.pages else ()), *self.objects.values())


def build_artifacts(record: JobRecord, settings: YarnSettings, cache: Cache) -> Artifacts:
    """Build the archives that are missing in the local cache.

    Raises:
        ConfigError: the interpreter or the framework's plug-in cannot be shipped.
        StorageError: the file system refuses.
    """

    def request(stored: Stored, ending: str, *, public: bool = False) -> UploadRequest:
        name = f"{stored.digest}{ending}"
        return UploadRequest(path=cache.find_object(stored.digest), name=name, size=stored.size, public=public)

    if settings.python == ENVIRONMENT:
        _check_environment(record)
    # Archives without a user's data may be shared by all users of a node.
    archives = {RUNTIME: request(store_runtime(cache), ".zip", public=True)}
    if settings.python == OWN_PYTHON:
        from tony.schedulers.shipping.python_archive import store_interpreter  # late: it loads every compressor

        archives[INTERPRETER] = request(store_interpreter(cache, PYTHON), ".tar.gz")
    if plug_in := store_plug_in(cache, record):
        archives[PLUG_IN] = request(plug_in, ".zip")
    pages = store_pages(cache)
    return Artifacts(
        archives=archives,
        pages=request(pages, ".zip", public=True) if pages else None,
        objects={
            item.digest: UploadRequest(path=cache.find_object(item.digest), name=item.digest, size=item.size)
            for item in _iterate_items(record.staged)
            if item.in_place is None
        },
    )


def collect_in_place(staged: StagedJob) -> dict[str, Uploaded]:
    """Return files that nodes fetch from where they are, without an upload; by the digests that stand for them."""
    return {
        item.digest: Uploaded(
            url=item.in_place.address,
            size=item.size,
            timestamp=item.in_place.timestamp,
            public=item.in_place.public,
        )
        for item in _iterate_items(staged)
        if item.in_place is not None
    }


def to_uploaded(file: RemoteFile) -> Uploaded:
    """Return what nodes must know of a file in the cluster's cache."""
    return Uploaded(url=file.address, size=file.size, timestamp=file.timestamp, public=file.public)


def _iterate_items(staged: StagedJob) -> Iterator[StagedItem]:
    for role in staged.roles.values():
        yield from role.items


def _check_environment(record: JobRecord) -> None:
    """Check that the environment is a tar archive: a shell extracts it, since there is no Python yet."""
    for role in record.spec.effective_roles:
        staged = record.staged.roles.get(role)
        found = [item for item in staged.items if item.placement is Placement.PYTHON] if staged else []
        if not found or not found[0].suffix.startswith((".tar", ".tgz")):
            message = f"{role} has no packed environment: set `python` to an archive of it, .tar or .tar.gz"
            raise ConfigError([Problem(key="scheduler.yarn.python", value=ENVIRONMENT, message=message)])
