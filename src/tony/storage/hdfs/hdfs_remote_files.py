"""Files in HDFS, read over HTTP (WebHDFS), for URIs in a job file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tony.hadoop.configuration import ConfigurationError
from tony.hadoop.configuration.service_addresses import NameService, find_name_service
from tony.hadoop.errors import AccessControlError, FileMissingError
from tony.hadoop.hdfs.file_system import FileKind, FileStatus, SeekableReader
from tony.model.hdfs_uri import split_address
from tony.storage.hdfs.hdfs_clients import HdfsClients
from tony.storage.staging.remote_files_interface import (
    RemoteFile,
    RemoteFileNotFoundError,
    RemoteFiles,
    RemoteFolder,
)

if TYPE_CHECKING:
    from tony.hadoop.hdfs.webhdfs import WebHdfs

_OTHERS_READ = 0o004
_OTHERS_ENTER = 0o001


class HdfsFiles(RemoteFiles):
    """The file systems that one Hadoop configuration knows.

    Args:
        in_place: the job's nodes belong to that cluster and fetch the files themselves.
    """

    def __init__(self, clients: HdfsClients, *, in_place: bool = False) -> None:
        self.in_place = in_place
        self._hdfs = clients
        self._clients: dict[NameService, WebHdfs] = {}
        self._folders: dict[tuple[NameService, str], bool] = {}

    def stat(self, address: str) -> RemoteFile | RemoteFolder:
        service, path = self._split(address)
        client = self._client(service)
        try:
            status = client.get_status(path)
            if status.kind is FileKind.DIRECTORY:
                found = client.list(path)
                return RemoteFolder(
                    files=tuple(
                        self._file(service, f"{path}/{file_status.name}", file_status)
                        for file_status in found
                        if file_status.is_file
                    ),
                    folders=tuple(file_status.name for file_status in found if not file_status.is_file),
                )
            if not status.is_file:
                raise ValueError(f"{service.uri}{path} is neither a file nor a folder.")
            return self._file(service, path, status)
        except FileMissingError:
            raise RemoteFileNotFoundError(f"{service.uri}{path} does not exist.") from None
        except AccessControlError as error:
            raise ValueError(f"permission denied: {service.uri}{path} cannot be read: {error}") from error

    def open(self, file: RemoteFile, length: int | None = None) -> SeekableReader:
        service, path = self._split(file.address)
        try:
            return self._client(service).open(path, length=length)
        except FileMissingError:
            raise RemoteFileNotFoundError(f"{file.address} no longer exists.") from None
        except AccessControlError as error:
            raise ValueError(f"permission denied: {file.address} cannot be read: {error}") from error

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def _split(self, address: str) -> tuple[NameService, str]:
        system, path = split_address(address)
        try:
            return find_name_service(self._hdfs.configuration, system or None), path
        except ConfigurationError as error:
            raise ValueError(f"unknown file system: {error}") from error

    def _client(self, service: NameService) -> WebHdfs:
        if service not in self._clients:
            self._clients[service] = self._hdfs.web_files_of(service)
        return self._clients[service]

    def _file(self, service: NameService, path: str, status: FileStatus) -> RemoteFile:
        readable = bool(status.permission & _OTHERS_READ) and not status.encrypted
        return RemoteFile(
            address=f"{service.uri}{path}",
            size=status.length,
            timestamp=status.modified_ms,
            public=self.in_place and readable and self._can_all_enter(service, path.rpartition("/")[0]),
        )

    def _can_all_enter(self, service: NameService, folder: str) -> bool:
        """Return True if every user may traverse the folder: only then may YARN share a file between users (PUBLIC).

        NodeManagers check it again.
        """
        if folder == "":
            return True
        known = self._folders.get((service, folder))
        if known is None:
            above = self._can_all_enter(service, folder.rpartition("/")[0])
            known = above and bool(self._client(service).get_status(folder).permission & _OTHERS_ENTER)
            self._folders[service, folder] = known
        return known
