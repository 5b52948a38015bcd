"""Errors of reading logs.

HadoopError
└── LogError                why there are no logs
    ├── LogsNotFoundError       nothing there: not aggregated yet, or not at all, or removed
    ├── MalformedLogFileError   an aggregated file is damaged, or is not one
    └── NodeWebError            a NodeManager's pages cannot be read
"""

from __future__ import annotations

from tony.hadoop.ipc.errors import HadoopError


class LogError(HadoopError):
    """Logs that cannot be read."""


class LogsNotFoundError(LogError):
    """No such logs; the message says where they were looked for."""


class MalformedLogFileError(LogError):
    """An aggregated file that is damaged, being written, or of another format."""


class NodeWebError(LogError):
    """A NodeManager's pages cannot be reached or read.

    Attributes:
        is_missing: True if the node answered that it does not, or no longer, have the container or the file.
    """

    def __init__(self, message: str, *, is_missing: bool = False) -> None:
        self.is_missing = is_missing
        super().__init__(message)
