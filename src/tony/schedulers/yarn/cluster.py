"""The cluster that a job goes to: its configuration, and clients of its daemons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tony.dataclass import dataclass, field
from tony.errors import SchedulerError
from tony.hadoop.configuration import Configuration
from tony.hadoop.configuration.daemons import NameService, name_service, resource_managers
from tony.hadoop.failover import Policy, Proxy
from tony.hadoop.logins import Logins
from tony.hadoop.wire import application_client
from tony.hadoop.yarn.application_client import ApplicationClient

if TYPE_CHECKING:
    from tony.hadoop.hdfs.webhdfs import WebHdfs

#: Seconds that a person waits for a cluster of which nobody answers.
PATIENCE = 10.0
#: Settings that the programs inside the cluster need; they cannot rely on the nodes' own files.
_NEEDED = ("fs.", "dfs.", "hadoop.security.", "hadoop.rpc.", "hadoop.http.", "ipc.client.", "yarn.")
#: Of these, what is large, of the nodes alone, or a secret.
_NOT_NEEDED = ("yarn.nodemanager.", "yarn.scheduler.capacity.", "dfs.datanode.data.dir", "dfs.namenode.name.dir")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One Hadoop cluster.

    Attributes:
        files: its default file system.
        logins: as whom we speak with its daemons.
    """

    configuration: Configuration
    files: NameService
    logins: Logins = field(repr=False)

    @property
    def user(self) -> str:
        """Who we are there."""
        return self.logins.user

    @classmethod
    def of(cls, configuration: Configuration, environ: Mapping[str, str]) -> Cluster:
        """The cluster that a configuration describes.

        Raises:
            ConfigurationError: something that is needed is missing or wrong in it.
        """
        return cls(
            configuration=configuration,
            files=name_service(configuration),
            logins=Logins(configuration, environ),
        )

    def applications(self) -> ApplicationClient:
        """Talks to the ResourceManager; to be closed."""
        daemons = resource_managers(self.configuration)
        return ApplicationClient(
            Proxy(
                name="ResourceManager",
                daemons=daemons,
                login=self.logins.for_resource_manager,
                protocol=application_client.PROTOCOL,
                policy=Policy(patience=PATIENCE, shortest=0.1, longest=0.5),
            )
        )

    def web_files(self) -> WebHdfs:
        """Talks to the file system over HTTP; blocks; to be closed.

        Raises:
            SchedulerError: no NameNode of it has a web address.
        """
        urls = [f"{node.web_scheme}://{node.web}" for node in self.files.name_nodes if node.web]
        if not urls:
            raise SchedulerError(
                f"the file system {self.files.uri} has no web address: dfs.namenode.http-address is not set. "
                "Set it in hdfs-site.xml."
            )
        from tony.hadoop.hdfs.webhdfs import WebHdfs, WebLogin  # late: http.client, which not all of us need at once

        return WebHdfs(urls, WebLogin(user=self.user))

    def path(self, staging: str) -> str:
        """The staging folder's path in the file system."""
        if staging.startswith("/"):
            return staging.rstrip("/") or "/"
        prefix = self.configuration.get("dfs.user.home.dir.prefix", "/user")
        return f"{prefix}/{self.user}/{staging}".rstrip("/")

    def needed_settings(self) -> dict[str, str]:
        """What programs of ours inside the cluster must know."""
        found = {}
        for key in self.configuration:
            if key.startswith(_NEEDED) and not key.startswith(_NOT_NEEDED):
                value = self.configuration.get(key)
                if value is not None:
                    found[key] = value
        return found
