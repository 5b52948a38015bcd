"""Explains errors of a used-up quota in HDFS, or of full DataNodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tony.errors import StorageError
from tony.hadoop.hdfs.errors import NoSpaceError
from tony.hadoop.ipc.errors import HadoopError, QuotaExceededError
from tony.units import format_size

if TYPE_CHECKING:
    from tony.hadoop.hdfs.file_system import SpaceUsage
    from tony.hadoop.hdfs.webhdfs import WebHdfs


@contextmanager
def explain_quota_errors(files: WebHdfs, uri: str, staging: str, needed: int) -> Iterator[None]:
    """Explain errors of a used-up quota, or of full DataNodes.

    Args:
        staging: path of the staging folder.
        needed: bytes to be written in all.

    Raises:
        StorageError: instead of such an error.
    """
    try:
        yield
    except (QuotaExceededError, NoSpaceError) as error:
        limit = _limit(files, staging) if isinstance(error, QuotaExceededError) else _rest(files)
        raise StorageError(
            f"not enough space in {uri}{staging} (scheduler.yarn.staging): {format_size(needed)} have to be uploaded"
            f"{limit}. Delete files there, have the limit raised, or set scheduler.yarn.staging to another folder. "
            f"HDFS says: {error.remote_message}"
        ) from error


def _limit(files: WebHdfs, folder: str) -> str:
    """Describe the used-up quota: of the folder, or of one above it."""
    path = folder
    while path:
        try:
            usage = files.get_usage(path)
        except HadoopError:  # older NameNodes do not report it; their own message must do
            return ""
        if usage.most_space is not None or usage.most_names is not None:
            return f", but the quota of {path} {_format_quota(usage)}"
        path = path.rpartition("/")[0]
    return ""


def _format_quota(usage: SpaceUsage) -> str:
    """Describe the rest of a quota. HDFS charges a whole block for a file being written, whatever its size."""
    parts = []
    if usage.most_space is not None:
        left = max(0, usage.most_space - usage.space)
        parts.append(
            f"leaves {format_size(left)} of {format_size(usage.most_space)} (while being written, each file takes a "
            "whole block, dfs.blocksize, for each replica)"
        )
    if usage.most_names is not None:
        parts.append(f"leaves {max(0, usage.most_names - usage.names)} of {usage.most_names} names")
    return " and ".join(parts)


def _rest(files: WebHdfs) -> str:
    try:
        return f", but all DataNodes together have {format_size(files.get_remaining())} left"
    except HadoopError:
        return ""
