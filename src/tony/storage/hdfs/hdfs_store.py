"""A folder in HDFS as a file store, over WebHDFS."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tony.errors import UserError
from tony.hadoop.configuration import ConfigurationError
from tony.hadoop.configuration.service_addresses import find_name_service
from tony.hadoop.errors import FileMissingError
from tony.hadoop.hdfs.file_system import FileKind, FileStatus
from tony.model.hdfs_uri import normalize_hdfs_uri, split_address
from tony.model.state_directory import Home
from tony.storage.hdfs.hdfs_clients import find_hdfs
from tony.storage.stores.store_interface import PIECE, FileStore, Item, join_below


class HdfsStore(FileStore):
    """One folder in HDFS.

    Args:
        address: `hdfs://namenode/folder`, or `hdfs:///folder` in the default file system.
        home: its running `tony mini` is the cluster if no other is configured.

    Raises:
        UserError: the address is invalid, or no Hadoop configuration is set.
        SchedulerError: the file system has no web address.
    """

    def __init__(self, address: str, home: Home) -> None:
        try:
            self.address = normalize_hdfs_uri(address)
            system, self._root = split_address(self.address)
            hdfs = find_hdfs(home, {})
            self._made: set[str] = set()
            self._files = hdfs.web_files_of(find_name_service(hdfs.configuration, system or None))
        except (ValueError, ConfigurationError) as error:
            raise UserError(f"{address}: {error}") from error

    def list(self, path: str = "") -> Sequence[Item]:
        try:
            found = self._files.list(self._build_full_path(path))
        except FileMissingError:
            return ()
        return tuple(_item(file_status, file_status.name) for file_status in found if file_status.name)

    def find(self, path: str) -> Item | None:
        found = self._files.find(self._build_full_path(path))
        return None if found is None else _item(found, path.rpartition("/")[2])

    def read_pieces(self, path: str, offset: int = 0) -> Iterator[bytes]:
        try:
            with self._files.open(self._build_full_path(path), offset) as stream:
                while piece := stream.read(PIECE):
                    yield piece
        except FileMissingError:
            return

    def write(self, path: str, content: bytes | Path) -> None:
        target = self._build_full_path(path)
        folder, _, name = target.rpartition("/")
        draft = f"{folder}/.{name}.new"
        if folder not in self._made:
            self._files.make_directories(folder, 0o700)
            self._made.add(folder)
        self._files.create(draft, content, permission=0o600, overwrite=True)
        self._files.rename(draft, target, overwrite=True)

    def remove(self, path: str) -> None:
        self._made.clear()
        self._files.delete(self._build_full_path(path), recursive=True)

    def close(self) -> None:
        self._files.close()

    def _build_full_path(self, path: str) -> str:
        return join_below(self._root, path, self.address)


def _item(status: FileStatus, name: str) -> Item:
    folder = status.kind is FileKind.DIRECTORY
    return Item(name=name, folder=folder, size=status.length, changed=status.modified_ms / 1000, owner=status.owner)
