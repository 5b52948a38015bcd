"""The staged files of a job: content-addressed objects, and how each is used in a container."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum

from tony.model.hdfs_uri import split_address
from tony.model.value_class import value_class


class Placement(Enum):
    """Use of a staged object in a task's working directory."""

    FILE = "file"  #: a file named `name`
    FOLDER = "folder"  #: an archive, unpacked into the folder `name`
    ROOT = "root"  #: an archive, unpacked into the working directory itself (the job's source)
    PYTHON = "python"  #: an interpreter archive: unpacked once per node, put on PATH


@value_class
class InPlace:
    """Location of an object that was not staged, because it is in the cluster's file system already.

    Attributes:
        address: full address, `hdfs://...`.
        timestamp: modification time, milliseconds since 1970; must be exact.
        public: readable by all users.
    """

    address: str
    timestamp: int
    public: bool = False


@value_class
class StagedItem:
    """One object of the staging cache.

    Attributes:
        digest: SHA-256, 64 hex digits: its name in `<staging>/cache/`.
        size: bytes.
        suffix: file-name ending that says how to unpack it: `.tar`, `.tar.gz`, `.zip`...; empty for plain files.
        mode: permission bits for FILE.
        in_place: where the object is if not in the cache; then the digest is of address, size and time, not a SHA-256
            of the content.
    """

    digest: str
    size: int
    name: str
    placement: Placement
    suffix: str = ""
    mode: int = 0o644
    in_place: InPlace | None = None


@value_class
class StagedRole:
    """The staged objects of one role's containers.

    Attributes:
        items: in the order in which they are extracted; source first.
        python: an interpreter's path on the nodes (when it is not an archive among `items`).
    """

    items: tuple[StagedItem, ...] = ()
    python: str | None = None


@value_class
class LeftOut:
    """Entries that an ignore file leaves out of a staged folder.

    Attributes:
        ignore_file: `.gitignore` or `.tonyignore`.
        files: number of files, without those in ignored folders, which are not searched.
        size: bytes of these files.
        folders: number of folders left out as a whole.
        paths: some of them, relative to the folder's top: folders (with a trailing slash), then files, largest first.
    """

    ignore_file: str
    files: int = 0
    size: int = 0
    folders: int = 0
    paths: tuple[str, ...] = ()

    @property
    def remedy(self) -> str:
        """Return how to have such files staged."""
        return "--set gitignore=false stages all" if self.ignore_file == ".gitignore" else "edit it to stage more"


@value_class
class StagedJob:
    """Everything staged for a job.

    Attributes:
        roles: role -> staged objects.
        left_out: what was left out of the job's source; None if nothing was.
    """

    roles: Mapping[str, StagedRole] = field(default_factory=dict)
    left_out: LeftOut | None = None

    @property
    def file_systems(self) -> tuple[str, ...]:
        """Return the file systems of objects that were not staged: nodes need their tokens."""
        items = [item for role in self.roles.values() for item in role.items]
        return tuple(dict.fromkeys(split_address(item.in_place.address)[0] for item in items if item.in_place))
