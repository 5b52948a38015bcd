"""`staging = "s3://BUCKET/PREFIX"`: objects in S3, or in a server with its API.

    <prefix>/<sha256>      an object

Client and pods have credentials in the variables that tools of AWS use; pods from the Secret `staging_secret`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tony.schedulers.kubernetes.staging_place import ObjectMissingError, StagingPlace

#: "Bucket naming rules" of the Amazon S3 User Guide; of the prefix what needs no quotes.
_FORM = re.compile(r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?P<prefix>(?:/[A-Za-z0-9!_.*'()-]+)*)/?")
_PREFIX = "tony-staging"


@dataclass(frozen=True)
class StagingS3(StagingPlace):
    """A prefix in a bucket."""

    bucket: str
    prefix: str

    @classmethod
    def from_text(cls, text: str) -> StagingS3:
        """Parse the setting.

        Raises:
            ValueError: it is not valid.
        """
        match = _FORM.fullmatch(text)
        prefix = match["prefix"].strip("/") if match else ""
        if match is None or {".", ".."} & {*prefix.split("/")}:
            raise ValueError('expected "s3://BUCKET" or "s3://BUCKET/PREFIX", of letters, digits and !_.*\'()-.')
        return cls(match["bucket"], prefix or _PREFIX)

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"

    def read(self, digest: str, size: int) -> Iterator[bytes]:
        from tony.storage.s3.bucket import S3Bucket, S3RefusedError  # late: most jobs use no S3

        try:
            yield from S3Bucket(self.bucket, os.environ, lambda: None).read_object(self.build_key(digest), size)
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
