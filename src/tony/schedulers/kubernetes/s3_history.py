"""Histories of jobs in S3, as application masters, submissions and readers open them.

Each has credentials and the address of the server in its own environment.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from tony.storage.s3.s3_address import split_s3_address

if TYPE_CHECKING:
    from tony.schedulers.job_store.s3_job_store import S3JobStore
    from tony.storage.s3.bucket import S3Bucket

#: Of one request: the application master repeats those that fail.
_MAX_TRIES = 3
_TIMEOUT_SECONDS = 10.0


def open_history_bucket(address: str) -> S3Bucket:
    """Return the bucket of a history, with the credentials and the server of this environment.

    Raises:
        StorageError: there are no credentials, or the address of the server is not valid.
    """
    from tony.storage.s3.bucket import S3Bucket  # late: few jobs use S3

    name, _ = split_s3_address(address)
    return S3Bucket(name, os.environ, max_tries=_MAX_TRIES, timeout=_TIMEOUT_SECONDS)


def build_s3_history(open_bucket: Callable[[], S3Bucket], address: str, job: str) -> S3JobStore:
    """Return the history of a job.

    Args:
        open_bucket: called before the first request.
        address: see `parse_history`.
    """
    from tony.schedulers.job_store.s3_job_store import S3JobStore  # late: few jobs use S3

    bucket, prefix = split_s3_address(address)
    return S3JobStore(open_bucket, bucket, f"{prefix}/jobs/{job}")
