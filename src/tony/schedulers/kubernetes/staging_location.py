"""The location of objects that are too large for the API: the setting `staging`.

A location is a value that is parsed from the setting: the client's, the AM's and, from a variable of the pod, the
executor's. What the client does with one of a kind is a function of a module of its own (`object_upload`).
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

from tony.errors import StorageError
from tony.linux.files import open_file

_CHUNK_BYTES = 1 << 20


class ObjectMissingError(StorageError):
    """A location does not have an object."""


class StagingLocation(ABC):
    """A location of objects, each named by the SHA-256 of its content. Others may be able to write there."""

    @property
    def claim(self) -> str:
        """The PersistentVolumeClaim that pods have at `STAGING`; empty for none."""
        return ""

    @property
    def file_systems(self) -> tuple[str, ...]:
        """The HDFS file systems that pods need tokens for."""
        return ()

    @property
    def trial_image(self) -> str:
        """An image of the form that pods mount with an object, for dry runs; empty if they mount none."""
        return ""

    @abstractmethod
    def __str__(self) -> str:
        """Return the setting, in the one form in which this location is written."""

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


def read_object_file(path: Path, size: int) -> Iterator[bytes]:
    """Yield the content of a file on a volume that others may write to; see `StagingLocation.read`.

    Raises:
        ObjectMissingError: there is none.
        StorageError: it cannot be read.
    """
    try:
        with os.fdopen(open_file(path), "rb") as source:
            if os.fstat(source.fileno()).st_size == size:
                while size and (data := source.read(min(_CHUNK_BYTES, size))):
                    size -= len(data)
                    yield data
    except FileNotFoundError:
        raise ObjectMissingError(f"{path} does not exist") from None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error}") from error
