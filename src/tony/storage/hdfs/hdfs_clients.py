"""Clients of the file systems that one Hadoop configuration knows."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

from tony.errors import SchedulerError
from tony.hadoop.authentication import Logins
from tony.hadoop.configuration import Configuration
from tony.hadoop.configuration.service_addresses import NameService, build_usual_web_address, find_name_service
from tony.hadoop.tokens import TokenCredentials
from tony.model.state_directory import Home
from tony.storage.hdfs.delegation_tokens import POLICY, FileLogin

if TYPE_CHECKING:
    from tony.hadoop.hdfs.webhdfs import WebHdfs


@dataclass(frozen=True, slots=True, kw_only=True)
class HdfsClients:
    """Clients of the file systems that one Hadoop configuration knows.

    Attributes:
        files: the default file system.
        logins: identities for the daemons.
        file_login: the identity for WebHDFS.
    """

    configuration: Configuration
    files: NameService
    logins: Logins = field(repr=False)
    file_login: FileLogin = field(repr=False)

    @property
    def user(self) -> str:
        """The user that we are on the cluster, or act for (proxy user)."""
        return self.logins.acts_for or self.logins.user

    @classmethod
    def from_configuration(
        cls, configuration: Configuration, environ: Mapping[str, str], credentials: TokenCredentials | None = None
    ) -> Self:
        """Return the clients for a configuration.

        Args:
            credentials: tokens; None for those of HADOOP_TOKEN_FILE_LOCATION.

        Raises:
            ConfigurationError: a required setting is missing or invalid.
        """
        logins = Logins(configuration, environ, credentials)

        return cls(
            configuration=configuration,
            files=find_name_service(configuration),
            logins=logins,
            file_login=FileLogin(configuration, logins),
        )

    def select_file_system(self, files: NameService) -> Self:
        """Return clients whose default file system is another one."""
        return replace(self, files=files, file_login=FileLogin(self.configuration, self.logins, files))

    def web_files(self, key: str = "fs.defaultFS") -> WebHdfs:
        """Return a WebHDFS client of a file system; it blocks, and must be closed.

        Args:
            key: the setting that names the file system; a path alone means the default one.

        Raises:
            ConfigurationError: it is not HDFS, or its NameNodes are unknown.
            SchedulerError: none of its NameNodes has a web address.
        """
        named = self.configuration.get(key) or ""
        files = self.files
        if "://" in named and key != "fs.defaultFS":
            files = find_name_service(self.configuration, named)
        else:
            key = "fs.defaultFS"
        return self.web_files_of(files, f"{key}, {self.configuration.find_source(key)}")

    def web_files_of(self, files: NameService, source: str = "") -> WebHdfs:
        """Return a WebHDFS client of a file system that no setting names.

        Args:
            source: where it is named, for messages.

        Raises:
            SchedulerError: none of its NameNodes has a web address.
        """
        urls = [f"{node.web_scheme}://{node.web}" for node in files.name_nodes if node.web]
        if not urls and files.logical:
            raise SchedulerError(
                f"the file system {files.uri}{source and f' ({source})'} has no web address: "
                "dfs.namenode.http-address is not set. Set it in hdfs-site.xml."
            )
        from tony.hadoop.hdfs.webhdfs import WebHdfs  # late: it imports http.client

        login = self.file_login if files == self.files else FileLogin(self.configuration, self.logins, files)
        # For a NameNode that is not in the configuration, try the default port.
        urls = urls or [build_usual_web_address(node) for node in files.name_nodes]
        return WebHdfs(urls, login, known_as=f"It is {files.uri}{source and f' ({source})'}")

    def recover_lease(self, path: str) -> bool:
        """Recover the lease of a dead writer; return True when the file is closed. Blocks; not in a running loop.

        Raises:
            HadoopError: the NameNode cannot be reached, or refuses.
        """
        return asyncio.run(self._recover_lease(path))

    async def _recover_lease(self, path: str) -> bool:
        from tony.hadoop.hdfs.namenode_rpc import create_name_node  # late: hardly ever needed

        async with create_name_node(self.configuration, self.logins, self.files, policy=POLICY) as client:
            return await client.recover_lease(path)

    def build_path(self, staging: str) -> str:
        """Return the staging folder's path in the file system."""
        if staging.startswith("/"):
            return staging.rstrip("/") or "/"
        prefix = self.configuration.get("dfs.user.home.dir.prefix", "/user")
        return f"{prefix}/{self.user}/{staging}".rstrip("/")


def load_hadoop_configuration(
    conf: str | None, home: Home, environ: Mapping[str, str] = os.environ
) -> Configuration | None:
    """Load the configuration that the job, the environment or a running `tony mini` names, in this order.

    Args:
        conf: the folder that the job names.

    Returns:
        None if none of them names one.

    Raises:
        ConfigurationError: its files cannot be used.
    """
    from tony.mini import conf_dir  # late: only clients search; processes in a cluster get it with their payload

    # Errors name the environment variable if the folder comes from one, so leave it to `Configuration.load`.
    if not conf and (environ.get("HADOOP_CONF_DIR") or environ.get("YARN_CONF_DIR")):
        return Configuration.load(None, environ)
    folder = conf or conf_dir(home)
    return Configuration.load(folder, environ) if folder else None


def is_mini_cluster(configuration: Configuration) -> bool:
    """Return True if a configuration is that of a `tony mini` cluster."""
    from tony.mini import PROPERTY  # late: as above

    return bool(configuration.get(PROPERTY))


def find_hdfs(home: Home, settings: Mapping[str, Mapping[str, object]]) -> HdfsClients:
    """Return the file systems for a job of any scheduler: `scheduler.yarn.conf` names their configuration.

    Args:
        settings: scheduler -> its settings in the job file.

    Raises:
        ValueError: no configuration is set.
        ConfigurationError: it cannot be used.
    """
    conf = settings.get("yarn", {}).get("conf")
    configuration = load_hadoop_configuration(conf if isinstance(conf, str) else None, home)
    if configuration is None:
        raise ValueError(
            "no Hadoop configuration is set, so the file system cannot be found. Set HADOOP_CONF_DIR (in a job file: "
            "scheduler.yarn.conf) to the folder with core-site.xml and hdfs-site.xml."
        )
    return HdfsClients.from_configuration(configuration, os.environ)
