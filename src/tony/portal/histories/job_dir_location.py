"""The location of a job directory, and its owner there."""

from __future__ import annotations

from dataclasses import dataclass

from tony.errors import StorageError
from tony.linux.user_accounts import find_user_name
from tony.model.state_directory import JobFolder
from tony.storage.stores.local_store import JobDirectory
from tony.storage.stores.store_interface import FileStore, join_path


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDirLocation:
    """The location of a job directory.

    Attributes:
        folder: on this machine: the directory itself, or a copy.
        store, path: of the original; None and empty for a job in the state directory of the portal's user.
        own: the job is in that state directory, and so belongs to the portal's user.
    """

    folder: JobFolder
    store: FileStore | None = None
    path: str = ""
    own: bool = False


def find_owner(store: FileStore | None, path: str) -> str:
    """Return the owner of a job directory in its file system.

    For a directory that is held open, its own owner counts: a file in it can be replaced.

    Raises:
        StorageError: it is unknown.
    """
    if isinstance(store, JobDirectory):
        return find_user_name(store.owner)
    found = store.find(join_path(path, "job.json")) if store else None
    if found is None or not found.owner:
        raise StorageError("the owner of the job directory is unknown, so nothing outside of it is shown")
    return found.owner
