"""The cluster of a job: its configuration, and clients of its daemons."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tony.errors import NoClusterError
from tony.hadoop.configuration.service_addresses import list_resource_managers
from tony.hadoop.failover import FailoverProxy, build_connection_options
from tony.hadoop.wire import application_client
from tony.hadoop.yarn.application_client import ApplicationClient
from tony.model.state_directory import Home
from tony.schedulers.yarn.settings import YarnSettings
from tony.storage.hdfs.delegation_tokens import POLICY
from tony.storage.hdfs.hdfs_clients import HdfsClients, is_mini_cluster, load_hadoop_configuration

#: Settings that AM and executors need inside the cluster; they cannot rely on the nodes' own files.
_REQUIRED_SETTINGS = ("fs.", "dfs.", "hadoop.security.", "hadoop.rpc.", "hadoop.http.", "ipc.client.", "yarn.")
#: Exceptions that are large, specific to a node, or secret.
_EXCLUDED_SETTINGS = ("yarn.nodemanager.", "yarn.scheduler.capacity.", "dfs.datanode.data.dir", "dfs.namenode.name.dir")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterClients(HdfsClients):
    """Clients of one Hadoop cluster: of its file systems and of its ResourceManager.

    Attributes:
        advice: what to do if its ResourceManager does not respond, as a sentence.
    """

    advice: str = ""

    def applications(self) -> ApplicationClient:
        """Return a client of the ResourceManager; close it after use."""
        daemons = list_resource_managers(self.configuration)
        if self.advice:
            daemons = tuple(replace(daemon, source=f"{daemon.source}; {self.advice}") for daemon in daemons)
        return ApplicationClient(
            FailoverProxy(
                name="ResourceManager",
                daemons=daemons,
                login=self.logins.login_for_resource_manager,
                protocol=application_client.PROTOCOL,
                policy=POLICY,
                options=build_connection_options(self.configuration),
            )
        )

    def collect_needed_settings(self) -> dict[str, str]:
        """Return the Hadoop settings that AM and executors need inside the cluster."""
        found = {}
        for key in self.configuration:
            if key.startswith(_REQUIRED_SETTINGS) and not key.startswith(_EXCLUDED_SETTINGS):
                value = self.configuration.get(key)
                if value is not None:
                    found[key] = value
        return found


def find_cluster(settings: YarnSettings, home: Home, environ: Mapping[str, str] = os.environ) -> ClusterClients:
    """Return the cluster that the job, the environment, or a running `tony mini` names, in this order.

    Raises:
        NoClusterError: none of them names one.
        ConfigurationError: its files cannot be used.
    """
    configuration = load_hadoop_configuration(settings.conf, home, environ)
    if configuration is None:
        raise NoClusterError(
            "no YARN cluster is configured: HADOOP_CONF_DIR is not set, and no `tony mini` cluster is running. Set "
            "HADOOP_CONF_DIR (or scheduler.yarn.conf) to the folder with core-site.xml and yarn-site.xml, or start a "
            "local cluster: tony mini start"
        )
    cluster = ClusterClients.from_configuration(configuration, environ)
    if not is_mini_cluster(configuration):
        return cluster
    return replace(cluster, advice="of tony mini: restart it with `tony mini restart rm`")
