"""Find the cluster that a client uses. Processes inside a cluster get it with their launch payload."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tony.errors import NoClusterError
from tony.hadoop.configuration import Configuration
from tony.mini import PROPERTY, conf_dir
from tony.model.layout import Home
from tony.schedulers.yarn.cluster.cluster_clients import ClusterClients
from tony.schedulers.yarn.settings import YarnSettings


def named_folder(settings: YarnSettings, home: Home, environ: Mapping[str, str] = os.environ) -> str | Path | None:
    """Return the folder with the Hadoop configuration, from any of the places that may name it; None if none does."""
    named = settings.conf or environ.get("HADOOP_CONF_DIR") or environ.get("YARN_CONF_DIR")
    return named or conf_dir(home)


def find_cluster(settings: YarnSettings, home: Home, environ: Mapping[str, str] = os.environ) -> ClusterClients:
    """Return the cluster that the job, the environment, or a running `tony mini` names, in this order.

    Raises:
        NoClusterError: none of them names one.
        ConfigurationError: its files cannot be used.
    """
    # Errors name the environment variable if the folder comes from one, so leave it to `Configuration.load`.
    from_environment = not settings.conf and (environ.get("HADOOP_CONF_DIR") or environ.get("YARN_CONF_DIR"))
    folder = None if from_environment else settings.conf or conf_dir(home)
    if not (folder or from_environment):
        raise NoClusterError(
            "no YARN cluster is configured: HADOOP_CONF_DIR is not set, and no `tony mini` cluster is running. Set "
            "HADOOP_CONF_DIR (or scheduler.yarn.conf) to the folder with core-site.xml and yarn-site.xml, or start a "
            "local cluster: tony mini start"
        )
    cluster = ClusterClients.of(Configuration.load(folder, environ), environ)
    if not cluster.configuration.get(PROPERTY):
        return cluster
    return replace(cluster, advice="of tony mini: restart it with `tony mini restart rm`")
