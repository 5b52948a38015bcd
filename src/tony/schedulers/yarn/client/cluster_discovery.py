"""Find the cluster that a client uses. Processes inside a cluster get it with their launch payload."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from tony.errors import NoClusterError
from tony.mini import PROPERTY
from tony.model.layout import Home
from tony.schedulers.yarn.cluster_clients import ClusterClients
from tony.schedulers.yarn.settings import YarnSettings
from tony.storage.hdfs.hdfs_discovery import load_hadoop_configuration


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
    if not configuration.get(PROPERTY):
        return cluster
    return replace(cluster, advice="of tony mini: restart it with `tony mini restart rm`")
