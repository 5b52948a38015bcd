"""The access of a job's pods to HDFS: settings and delegation tokens, in a Secret of the job.

It is a volume of all pods of a job that uses HDFS. Programs find Hadoop's usual files there; tony's own clients read a
summary in JSON, so they need neither these nor anything of the image.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from tony.errors import PlatformError, StorageError
from tony.hadoop.configuration import Configuration
from tony.hadoop.configuration.service_addresses import NameService, find_name_service
from tony.hadoop.tokens import TokenCredentials, from_bytes, to_bytes
from tony.model.staged_files import StagedItem
from tony.schedulers.kubernetes.launch_payload import HADOOP, decode_payload, encode_payload
from tony.storage.hdfs.hdfs_clients import HdfsClients
from tony.storage.hdfs.hdfs_remote_files import HdfsFiles
from tony.storage.hdfs.token_renewal import cancel_tokens
from tony.storage.staging.remote_files_interface import RemoteFile

if TYPE_CHECKING:
    from tony.hadoop.hdfs.webhdfs import WebHdfs

#: Keys of the Secret.
ACCESS_KEY, TOKENS_KEY = "access.json", "tokens"
_CORE_SITE, _HDFS_SITE = "core-site.xml", "hdfs-site.xml"
#: Settings that clients of HDFS need; all programs of the job can read them.
_SETTINGS = (
    *("fs.defaultFS", "dfs.", "ipc.client.", "hadoop.rpc.", "hadoop.security.authentication"),
    *("hadoop.security.authorization", "hadoop.security.auth_to_local", "hadoop.security.token."),
)
#: Words in names of settings that are for daemons alone, or secret.
_EXCLUDED = ("keytab", "password", "secret", "datanode.data.dir", "namenode.name.dir")
_PIECE_BYTES = 4 << 20
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class HadoopSummary:
    """The part of a job's access to HDFS that is not secret.

    Attributes:
        user: the submitter's name in HDFS.
        settings: Hadoop's, by their names.
        file_systems: their URIs; an empty one is the default file system.
        is_fetched: the tokens were fetched for this job, by its submitter.
    """

    user: str
    settings: Mapping[str, str]
    file_systems: tuple[str, ...]
    is_fetched: bool


@dataclass(frozen=True, slots=True)
class HadoopAccess:
    """The access of a job to HDFS.

    Attributes:
        credentials: the tokens; none where HDFS requires none.
    """

    summary: HadoopSummary
    credentials: TokenCredentials = field(repr=False)

    def encode(self) -> Mapping[str, bytes]:
        """Return the content of the Secret."""
        settings = self.summary.settings
        hdfs = {key: value for key, value in settings.items() if key.startswith("dfs.")}
        core = {key: value for key, value in settings.items() if key not in hdfs}
        content = {
            ACCESS_KEY: encode_payload(self.summary),
            _CORE_SITE: _build_site_file(core),
            _HDFS_SITE: _build_site_file(hdfs),
        }
        return content | ({TOKENS_KEY: to_bytes(self.credentials)} if self.credentials.tokens else {})

    @classmethod
    def decode(cls, content: Mapping[str, bytes]) -> HadoopAccess:
        """Decode the content of the Secret.

        Raises:
            PlatformError: it is not of this version of tony.
        """
        try:
            summary = decode_payload(HadoopSummary, content[ACCESS_KEY])
        except (LookupError, ValueError) as error:
            raise PlatformError(f"the job's Secret for HDFS is not of this version of tony: {error}") from error
        return cls(summary, from_bytes(content[TOKENS_KEY]) if TOKENS_KEY in content else TokenCredentials())

    @property
    def is_fetched(self) -> bool:
        """Return True if the tokens were fetched for this job."""
        return self.summary.is_fetched

    def create_clients(self) -> HdfsClients:
        """Return clients with the job's tokens; without security they have the submitter's name."""
        return self._create_clients(self.credentials, {"HADOOP_USER_NAME": self.summary.user})

    def create_renewer_clients(self, environ: Mapping[str, str]) -> HdfsClients:
        """Return clients without the job's tokens, which have a keytab."""
        return self._create_clients(TokenCredentials(), environ)

    def _create_clients(self, credentials: TokenCredentials, environ: Mapping[str, str]) -> HdfsClients:
        configuration = Configuration.load(None, {}, given=self.summary.settings)
        return HdfsClients.from_configuration(configuration, environ, credentials)

    def open_files(self, system: str) -> WebHdfs:
        """Return a client of a file system, which must be closed.

        Args:
            system: its URI; empty for the default one.

        Raises:
            ConfigurationError: its NameNodes are unknown.
            SchedulerError: none of them has a web address.
        """
        clients = self.create_clients()
        return clients.web_files_of(find_name_service(clients.configuration, system or None))

    def list_services(self) -> list[NameService]:
        """Return the file systems."""
        configuration = Configuration.load(None, {}, given=self.summary.settings)
        return [find_name_service(configuration, uri or None) for uri in self.summary.file_systems]

    def cancel_fetched_tokens(self) -> None:
        """Cancel the tokens if they were fetched for this job; log which cannot be. Blocks; not in a running loop.

        Raises:
            ConfigurationError: a setting that this needs is missing or invalid.
        """
        if self.is_fetched:
            cancel_tokens(self.create_clients(), self.list_services(), _log.warning)


def collect_settings(configuration: Configuration) -> dict[str, str]:
    """Return the settings that clients of HDFS need."""
    return {
        key: value
        for key in configuration
        if key.startswith(_SETTINGS) and not any(word in key for word in _EXCLUDED)
        if (value := configuration.get(key)) is not None
    }


def load_access() -> HadoopAccess:
    """Return the access that this pod has.

    Raises:
        PlatformError: it has none.
    """
    try:
        content = {name: (HADOOP / name).read_bytes() for name in (ACCESS_KEY, TOKENS_KEY) if (HADOOP / name).exists()}
    except OSError as error:
        raise PlatformError(f"{HADOOP} cannot be read: {error.strerror}") from error
    return HadoopAccess.decode(content)


def list_variables() -> Iterator[tuple[str, str]]:
    """Yield the variables with which Hadoop's clients in programs find settings and tokens."""
    if (HADOOP / ACCESS_KEY).exists():
        yield "HADOOP_CONF_DIR", str(HADOOP)
        if (HADOOP / TOKENS_KEY).exists():
            yield "HADOOP_TOKEN_FILE_LOCATION", str(HADOOP / TOKENS_KEY)
        else:
            yield "HADOOP_USER_NAME", load_access().summary.user


def fetch_in_place(item: StagedItem, target: Path) -> None:
    """Copy a file that was not staged from HDFS.

    Raises:
        StorageError: it changed since the submission, or cannot be read.
        HadoopError: HDFS does not respond, or refuses.
    """
    assert item.in_place is not None
    address = item.in_place.address
    files = HdfsFiles(load_access().create_clients())
    try:
        found = files.stat(address)
        expected = (item.size, item.in_place.timestamp)
        if not isinstance(found, RemoteFile) or (found.size, found.timestamp) != expected:
            raise StorageError(f"{address} was changed after the job was submitted; submit it again")
        with files.open(found) as stream, target.open("wb") as file:
            while data := stream.read(_PIECE_BYTES):
                file.write(data)
    except ValueError as error:
        raise StorageError(str(error)) from error
    finally:
        files.close()


def _build_site_file(settings: Mapping[str, str]) -> bytes:
    lines = [
        f"<property><name>{escape(key)}</name><value>{escape(value)}</value></property>\n"
        for key, value in settings.items()
    ]
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<configuration>\n{"".join(lines)}</configuration>\n'.encode()
