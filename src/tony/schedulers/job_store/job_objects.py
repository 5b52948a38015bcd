"""The ConfigMaps and Secrets of one job, all owned by its Job object: their names, labels, notes and content."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from tony.errors import StorageError
from tony.kube.api_client import ApiClient, Object
from tony.kube.errors import AnswerLostError, KubeApiError
from tony.kube.resources import SECRETS, ApiResource

PREFIX = "tony.dev/"
MANAGED_LABELS: Mapping[str, str] = {"app.kubernetes.io/managed-by": "tony"}
JOB_LABEL, PART_LABEL = f"{PREFIX}job", f"{PREFIX}part"
_RECORD_PART = "record"
_CONTENT_KEY = "content"
#: Times that an object is created or replaced while others delete and create it.
_MAX_REPLACEMENTS = 5


def build_labels(job: str, part: str) -> dict[str, str]:
    """Return the labels of an object of a job."""
    return {**MANAGED_LABELS, JOB_LABEL: job, PART_LABEL: part}


def build_owner(job: str, uid: str) -> Object:
    """Return the reference to the Job that owns an object. It needs no right to change the Job."""
    return {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": uid, "blockOwnerDeletion": False}


def build_object_name(job: str, file: str) -> str:
    """Return the name of the object with a file of a job."""
    return f"{job}.{file}"


class JobObjects:
    """Objects that hold the files of one job.

    Args:
        job: the job's id, by which its objects are named.
        owner: uid of the Job object that owns them; empty for a reader.
    """

    def __init__(self, client: ApiClient, job: str, owner: str) -> None:
        self._client, self._job, self._owner = client, job, owner

    def list_notes(self, resource: ApiResource) -> tuple[Mapping[str, str], ...]:
        """Return the notes of all objects of a kind."""
        labels = {JOB_LABEL: self._job, PART_LABEL: _RECORD_PART}
        return tuple(map(get_notes, self._client.list(resource, labels=labels, metadata_only=True).items))

    def get(self, resource: ApiResource, file: str) -> Object | None:
        """Return the object of a file; None if it does not exist."""
        try:
            return self._client.get(resource, build_object_name(self._job, file))
        except KubeApiError as error:
            if error.is_missing:
                return None
            raise

    def create(self, resource: ApiResource, file: str, notes: Mapping[str, str], data: bytes) -> bool:
        """Create an object that never changes; return False if it exists."""
        body = self._build(resource, file, notes, data) | {"immutable": True}
        try:
            self._client.create(resource, body)
        except KubeApiError as error:
            if not error.is_existing:
                raise
            return False
        return True

    def replace(self, resource: ApiResource, file: str, notes: Mapping[str, str], data: bytes) -> Mapping[str, str]:
        """Create or replace an object; return the notes of what it replaces, which are empty for a new one."""
        body = self._build(resource, file, notes, data)
        for _ in range(_MAX_REPLACEMENTS):
            before = self.get(resource, file)
            try:
                if before is not None:
                    self._client.patch(resource, build_object_name(self._job, file), body)
                    return get_notes(before)
                self._client.create(resource, body)
            except AnswerLostError:
                if before is not None:
                    raise
                continue  # it was created or not
            except KubeApiError as error:
                if not (error.is_missing if before is not None else error.is_existing):
                    raise
            else:
                return {}
        raise StorageError(f"{build_object_name(self._job, file)} is created and deleted by others all the time")

    def delete(self, resource: ApiResource, file: str) -> None:
        """Delete an object, if it exists."""
        self._client.delete(resource, build_object_name(self._job, file))

    def _build(self, resource: ApiResource, file: str, notes: Mapping[str, str], data: bytes) -> Object:
        metadata: Object = {
            "name": build_object_name(self._job, file),
            "labels": build_labels(self._job, _RECORD_PART),
            "annotations": dict(notes),
        }
        if self._owner:
            metadata["ownerReferences"] = [build_owner(self._job, self._owner)]
        field = "data" if resource is SECRETS else "binaryData"
        return {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": metadata,
            field: {_CONTENT_KEY: base64.b64encode(data).decode()},
        }


def get_notes(found: Object) -> Mapping[str, str]:
    """Return the notes of an object: its annotations."""
    return found["metadata"].get("annotations") or {}


def get_content(found: Object) -> bytes:
    """Return the content of an object.

    Raises:
        StorageError: it has none.
    """
    try:
        return base64.b64decode((found.get("binaryData") or found.get("data") or {})[_CONTENT_KEY], validate=True)
    except (LookupError, ValueError, TypeError):
        raise StorageError(f"{found['metadata'].get('name')} has no content") from None
