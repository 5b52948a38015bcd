"""A configuration that cannot be used."""

from __future__ import annotations

from tony.errors import UserError


class ConfigurationError(UserError):
    """A file of Hadoop's configuration that cannot be read, or a value in it that means nothing.

    Attributes:
        key: the key with the value, or empty if it is the file.
        source: `file:line`, or what else the value comes from.
    """

    def __init__(self, message: str, *, key: str = "", source: str = "") -> None:
        self.key = key
        self.source = source
        super().__init__(message)
