"""Parses the setting `history`."""

from __future__ import annotations

from tony.model.hdfs_uri import normalize_hdfs_uri, split_address
from tony.schedulers.job_store.job_objects import PREFIX
from tony.storage.s3.s3_address import split_s3_address

#: The default: in ConfigMaps of the namespace.
IN_NAMESPACE = "configmaps"
#: Annotation of a Job: the folder in HDFS or S3.
HISTORY_ANNOTATION = f"{PREFIX}history"
_S3_SCHEME = "s3:"


def parse_history(text: str) -> str:
    """Return the address of the folder in HDFS or S3 that the setting names; empty for the namespace.

    Raises:
        ValueError: it is not valid.
    """
    if text in ("", IN_NAMESPACE):
        return ""
    if is_in_s3(text):
        try:
            bucket, prefix = split_s3_address(text)
        except ValueError as error:
            raise ValueError(f'expected "s3://BUCKET/FOLDER": {error}.') from None
        if not prefix:
            raise ValueError('expected "s3://BUCKET/FOLDER": it names no folder.')
        return f"s3://{bucket}/{prefix}"
    if not text.startswith("hdfs:"):
        raise ValueError(f'expected "{IN_NAMESPACE}", "hdfs://NAMENODE/FOLDER" or "s3://BUCKET/FOLDER".')
    return normalize_hdfs_uri(text)


def is_in_s3(address: str) -> bool:
    """Return True if an address is in S3."""
    return address.startswith(_S3_SCHEME)


def list_history_file_systems(address: str) -> tuple[str, ...]:
    """Return the HDFS file systems that an address needs tokens for."""
    return () if not address or is_in_s3(address) else (split_address(address)[0],)
