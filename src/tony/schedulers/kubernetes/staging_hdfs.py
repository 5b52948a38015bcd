"""`staging = "hdfs://NAMENODE/FOLDER"`: a folder in HDFS, which pods read with the tokens of their job.

    <folder>/kubernetes/cache/<sha256>      an object; see `cluster_cache`

The folder may be the staging folder of jobs on YARN: these have objects of their own in it, as clients of each
scheduler know only which of its own jobs run when they remove old objects.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from tony.model.hdfs_uri import normalize_hdfs_uri, split_address
from tony.schedulers.kubernetes.staging_location import ObjectMissingError, StagingLocation

_CHUNK_BYTES = 4 << 20


@dataclass(frozen=True)
class StagingHdfs(StagingLocation):
    """A folder in HDFS.

    Attributes:
        address: `hdfs://NAMENODE/FOLDER`; without a name it is in the default file system.
    """

    address: str

    @classmethod
    def from_text(cls, text: str) -> StagingHdfs:
        """Parse the setting.

        Raises:
            ValueError: it is not valid.
        """
        return cls(normalize_hdfs_uri(text))

    def __str__(self) -> str:
        return self.address

    @property
    def file_system(self) -> str:
        """Its URI; empty for the default one."""
        return split_address(self.address)[0]

    @property
    def file_systems(self) -> tuple[str, ...]:
        return (self.file_system,)

    @property
    def path(self) -> str:
        """The folder with the cache, in the file system."""
        return f"{split_address(self.address)[1]}/kubernetes"

    def read(self, digest: str, size: int) -> Iterator[bytes]:
        from tony.hadoop.errors import FileMissingError  # late: most jobs use no HDFS
        from tony.schedulers.kubernetes.hadoop_access import load_access

        path = f"{self.path}/cache/{digest}"
        with contextlib.closing(load_access().open_files(self.file_system)) as files:
            try:
                status = files.get_status(path)
                if status.is_file and status.length == size:
                    with files.open(path, length=size) as stream:
                        while data := stream.read(_CHUNK_BYTES):
                            yield data
            except FileMissingError as error:
                raise ObjectMissingError(str(error)) from None

    def describe(self, digest: str) -> str:
        return f"{self.address}/kubernetes/cache/{digest}"

    def find_remedy(self, digest: str) -> str:
        return "Delete that file if it is there, and submit again."
