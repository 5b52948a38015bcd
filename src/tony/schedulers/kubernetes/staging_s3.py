"""`staging = "s3://BUCKET/PREFIX"`: objects in S3, or in a server with its API.

    <prefix>/<sha256>      an object

Client and pods have credentials in the variables that tools of AWS use; pods from the Secret `s3_secret`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from tony.schedulers.kubernetes.staging_location import ObjectMissingError, StagingLocation
from tony.storage.s3.s3_address import split_s3_address

_PREFIX = "tony-staging"


@dataclass(frozen=True)
class StagingS3(StagingLocation):
    """A prefix in a bucket."""

    bucket: str
    prefix: str

    @classmethod
    def from_text(cls, text: str) -> StagingS3:
        """Parse the setting.

        Raises:
            ValueError: it is not valid.
        """
        try:
            bucket, prefix = split_s3_address(text)
        except ValueError as error:
            raise ValueError(f'expected "s3://BUCKET" or "s3://BUCKET/PREFIX": {error}.') from None
        return cls(bucket, prefix or _PREFIX)

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"

    def read(self, digest: str, size: int) -> Iterator[bytes]:
        from tony.storage.s3.bucket import S3Bucket, S3RefusedError  # late: most jobs use no S3

        try:
            yield from S3Bucket(self.bucket, os.environ).read_object(self.build_key(digest), size)
        except S3RefusedError as error:
            if error.status == 404:
                raise ObjectMissingError(str(error)) from None
            raise

    def describe(self, digest: str) -> str:
        return f"s3://{self.bucket}/{self.build_key(digest)}"

    def find_remedy(self, digest: str) -> str:
        return "Delete that object if it is there, and submit again."

    def build_key(self, digest: str) -> str:
        """Return the key of an object."""
        return f"{self.prefix}/{digest}"
