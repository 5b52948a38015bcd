"""Parses the setting `record`."""

from __future__ import annotations

from tony.model.hdfs_uri import normalize_hdfs_uri
from tony.schedulers.job_store.job_objects import PREFIX

#: The default: in ConfigMaps of the namespace.
IN_NAMESPACE = "configmaps"
#: Annotation of a Job: the folder in HDFS.
RECORD_ANNOTATION = f"{PREFIX}record"


def parse_record(text: str) -> str:
    """Return the address of the folder in HDFS that the setting names; empty for the namespace.

    Raises:
        ValueError: it is not valid.
    """
    if text in ("", IN_NAMESPACE):
        return ""
    if not text.startswith("hdfs:"):
        raise ValueError(f'expected "{IN_NAMESPACE}" or "hdfs://NAMENODE/FOLDER".')
    return normalize_hdfs_uri(text)
