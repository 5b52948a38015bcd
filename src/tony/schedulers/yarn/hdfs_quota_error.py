"""What is said when HDFS has no room: how much was needed, how much there is, who says so, and what to do."""

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
def explained(files: WebHdfs, uri: str, staging: str, needed: int) -> Iterator[None]:
    """Says it so that its reader can do something about it.

    Args:
        staging: path of the staging folder.
        needed: bytes that are to be written in all.

    Raises:
        StorageError: instead of an error that tells of a quota, or of full DataNodes.
    """
    try:
        yield
    except (QuotaExceededError, NoSpaceError) as error:
        limit = _limit(files, staging) if isinstance(error, QuotaExceededError) else _rest(files)
        raise StorageError(
            f"no room in {uri}{staging} (scheduler.yarn.staging): {format_size(needed)} are to be uploaded"
            f"{limit}. Free some room there, have it raised, or set scheduler.yarn.staging to a folder with room. "
            f"HDFS says: {error.remote_message}"
        ) from error


def _limit(files: WebHdfs, folder: str) -> str:
    """The quota that is used up: of the folder, or of one above it."""
    path = folder
    while path:
        try:
            usage = files.usage(path)
        except HadoopError:  # older NameNodes do not tell; what it said itself must do
            return ""
        if usage.most_space is not None or usage.most_names is not None:
            return f", and the quota of {path} {_of(usage)}"
        path = path.rpartition("/")[0]
    return ""


def _of(usage: SpaceUsage) -> str:
    """What is left of it. While a file is written HDFS charges a whole block for it, whatever its size."""
    parts = []
    if usage.most_space is not None:
        left = max(0, usage.most_space - usage.space)
        parts.append(
            f"leaves {format_size(left)} of {format_size(usage.most_space)}, where each file takes a whole block "
            "(dfs.blocksize, for each copy) as long as it is written"
        )
    if usage.most_names is not None:
        parts.append(f"leaves {max(0, usage.most_names - usage.names)} of {usage.most_names} names")
    return " and ".join(parts)


def _rest(files: WebHdfs) -> str:
    try:
        return f", and all DataNodes together have {format_size(files.remaining())} left"
    except HadoopError:
        return ""
