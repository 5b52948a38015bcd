"""Parses the setting `staging`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tony.schedulers.kubernetes.staging_claim import StagingClaim
from tony.schedulers.kubernetes.staging_hdfs import StagingHdfs
from tony.schedulers.kubernetes.staging_location import StagingLocation
from tony.schedulers.kubernetes.staging_registry import StagingRegistry
from tony.schedulers.kubernetes.staging_s3 import StagingS3

#: Scheme -> the kind of location.
_KINDS: Mapping[str, Callable[[str], StagingLocation]] = {
    "pvc": StagingClaim.from_text,
    "hdfs": StagingHdfs.from_text,
    "s3": StagingS3.from_text,
    "oci": StagingRegistry.from_text,
}


def parse_staging(text: str) -> StagingLocation | None:
    """Return the location that the setting names; None if it is empty.

    Raises:
        ValueError: it is not valid.
    """
    if not text:
        return None
    if parse := _KINDS.get(text.partition(":")[0]):
        return parse(text)
    forms = '"pvc:CLAIM/FOLDER", "hdfs://NAMENODE/FOLDER", "oci://REGISTRY/REPOSITORY" or "s3://BUCKET/PREFIX"'
    raise ValueError(f"expected {forms}.")
