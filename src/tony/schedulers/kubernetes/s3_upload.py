"""Sends large objects of a submission to S3, with the credentials in the variables of the client."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from tony.errors import StorageError
from tony.schedulers.kubernetes.object_upload import ObjectUpload
from tony.schedulers.kubernetes.staging_s3 import StagingS3
from tony.storage.s3.bucket import S3Bucket

#: Age of an object at which a submission renews it: a rule of the bucket that deletes old ones takes none that is used.
_RENEWAL_SECONDS = 7 * 86_400.0
_CHUNK_BYTES = 1 << 20


@contextlib.contextmanager
def upload_to_s3(location: StagingS3, upload: ObjectUpload) -> Iterator[Mapping[str, str]]:
    """See `upload_objects`. Nothing is removed: how long objects stay is a rule of the bucket."""
    bucket = S3Bucket(location.bucket, os.environ, upload.note_progress)
    for digest, path in upload.paths.items():
        upload.note_progress()
        key, size = location.build_key(digest), path.stat().st_size
        found = bucket.find_object(key)
        if found is None or found.size != size:
            upload.announce(digest)
            bucket.store_object(key, digest, size, lambda path=path: _read_file(path, upload))  # type: ignore[misc]
        elif found.age > _RENEWAL_SECONDS:
            bucket.renew_object(key)
    yield {}


def _read_file(path: Path, upload: ObjectUpload) -> Iterator[bytes]:
    try:
        with path.open("rb") as source:
            while data := source.read(_CHUNK_BYTES):
                upload.note_progress()
                yield data
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error}") from error
