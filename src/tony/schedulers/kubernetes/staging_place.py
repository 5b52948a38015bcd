"""The place of objects that are too large for the API: the setting `staging`.

A place is a value that is parsed from the setting: the client's, the AM's and, from a variable of the pod, the
executor's. What the client does with one of a kind is a function of a module of its own (`object_provision`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from tony.errors import StorageError


class ObjectMissingError(StorageError):
    """A place does not have an object."""


class StagingPlace(ABC):
    """A place of objects, each named by the SHA-256 of its content. Others may be able to write there."""

    @property
    def claim(self) -> str:
        """The PersistentVolumeClaim that pods have at `STAGING`; empty for none."""
        return ""

    @property
    def file_systems(self) -> tuple[str, ...]:
        """The HDFS file systems that pods need tokens for."""
        return ()

    @abstractmethod
    def __str__(self) -> str:
        """Return the setting, in the one form in which this place is written."""

    @abstractmethod
    def read(self, digest: str, size: int) -> Iterator[bytes]:
        """Yield the content of an object, in a pod. The caller compares it with the digest.

        Yield nothing if the object has another size: it may be endless.

        Raises:
            ObjectMissingError: there is none.
            StorageError, InfraError: it cannot be read.
        """

    @abstractmethod
    def describe(self, digest: str) -> str:
        """Return where an object is, for messages."""

    @abstractmethod
    def find_remedy(self, digest: str) -> str:
        """Return what to do about an object that is missing or was changed, as sentences."""
