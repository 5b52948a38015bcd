"""Errors specific to HDFS.

FileSystemError
├── FileMissingError, FileExistsAlreadyError, QuotaExceededError      (tony.hadoop.ipc.errors)
├── NoSpaceError        no DataNode accepts a block: all full, too few, or excluded
└── BeingWrittenError   another writer has the file open, or its last block is being recovered
"""

from __future__ import annotations

from tony.hadoop.ipc.errors import FileSystemError, RemoteError, build_remote_error


class NoSpaceError(FileSystemError):
    """No DataNode accepts the block."""

    advice = (
        "All DataNodes are full, or too few of them run: see the NameNode's page, `hdfs dfsadmin -report`,"
        " and dfs.datanode.du.reserved."
    )


class BeingWrittenError(FileSystemError):
    """Another writer has the file open, or died and its last block is being recovered; retry later."""

    advice = (
        "The lease of a dead writer ends with its connection; if its machine vanished, recover the lease:"
        " hdfs debug recoverLease -path <file>"
    )


_SIMPLE_NAMES: dict[str, type[RemoteError]] = {
    "AlreadyBeingCreatedException": BeingWrittenError,
    "RecoveryInProgressException": BeingWrittenError,
    "LeaseExpiredException": BeingWrittenError,
}
#: Start of a message about an exception while the NameNode determined the user.
_NO_USER = "Failed to obtain user group information:"
#: HDFS has no class of its own for these: a plain IOException, and its words.
_NO_SPACE = (
    "could only be written to 0 of",
    "could only be replicated to 0 nodes",
    "No space left on device",
    "Failed to find datanode",  # as WebHDFS says it before it takes any byte
)


def build_file_system_error(class_name: str, message: str, *, where: str = "") -> RemoteError:
    """Return the error for an exception of a NameNode or DataNode.

    Args:
        class_name: the Java class, in full.
        message: as on the wire.
        where: server and operation.
    """
    class_name, message = _unwrap_exception(class_name, message)
    kind = _SIMPLE_NAMES.get(class_name.rpartition(".")[2])
    if kind is None and any(words in message[:2000] for words in _NO_SPACE):
        kind = NoSpaceError
    if kind is not None:
        return kind(class_name, message, where=where)
    error = build_remote_error(class_name, message, where=where)
    return error


def _unwrap_exception(class_name: str, message: str) -> tuple[str, str]:
    """Return the exception in a SecurityException: over HTTP it wraps a refused token, and a standby NameNode."""
    if not message.startswith(_NO_USER):
        return class_name, message
    inner, _, text = message.removeprefix(_NO_USER).strip().partition(": ")
    if text.startswith("StandbyException") or inner.endswith("StandbyException"):
        return "org.apache.hadoop.ipc.StandbyException", text
    return inner, text
