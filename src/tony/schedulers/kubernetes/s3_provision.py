"""Sends large objects of a submission to S3, with the credentials in the variables of the client."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from tony.errors import StorageError
from tony.schedulers.kubernetes.object_provision import ObjectProvision
from tony.schedulers.kubernetes.staging_s3 import StagingS3
from tony.storage.s3.bucket import S3Bucket

#: Age of an object at which a submission renews it: a rule of the bucket that deletes old ones takes none that is used.
_RENEWAL_SECONDS = 7 * 86_400.0
_CHUNK_BYTES = 1 << 20


@contextlib.contextmanager
def provide_in_s3(place: StagingS3, provision: ObjectProvision) -> Iterator[Mapping[str, str]]:
    """See `provide_objects`. Nothing is removed: how long objects stay is a rule of the bucket."""
    bucket = S3Bucket(place.bucket, os.environ, provision.note_progress)
    for digest, path in provision.paths.items():
        provision.note_progress()
        key, size = place.build_key(digest), path.stat().st_size
        found = bucket.find_object(key)
        if found is None or found.size != size:
            provision.announce(digest)
            bucket.store_object(key, digest, size, lambda path=path: _read_file(path, provision))  # type: ignore[misc]
        elif found.age > _RENEWAL_SECONDS:
            bucket.renew_object(key)
    yield {}


def _read_file(path: Path, provision: ObjectProvision) -> Iterator[bytes]:
    try:
        with path.open("rb") as source:
            while data := source.read(_CHUNK_BYTES):
                provision.note_progress()
                yield data
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error}") from error
