"""Which cluster a client means. Not for programs inside one: they are told."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tony.dataclass import replace
from tony.errors import NoClusterError
from tony.hadoop.configuration import Configuration
from tony.mini import PROPERTY, conf_dir
from tony.model.layout import Home
from tony.schedulers.yarn.cluster_clients import ClusterClients
from tony.schedulers.yarn.settings import YarnSettings


def named_folder(settings: YarnSettings, home: Home, environ: Mapping[str, str] = os.environ) -> str | Path | None:
    """The folder of its configuration, whoever names it; None if nobody does."""
    named = settings.conf or environ.get("HADOOP_CONF_DIR") or environ.get("YARN_CONF_DIR")
    return named or conf_dir(home)


def find_cluster(settings: YarnSettings, home: Home, environ: Mapping[str, str] = os.environ) -> ClusterClients:
    """The cluster that the job, the environment, or a running `tony mini` names, in this order.

    Raises:
        NoClusterError: none of them names one.
        ConfigurationError: its files cannot be used.
    """
    # What is wrong with a folder of the environment's names the variable, if it is found by that.
    from_environment = not settings.conf and (environ.get("HADOOP_CONF_DIR") or environ.get("YARN_CONF_DIR"))
    folder = None if from_environment else settings.conf or conf_dir(home)
    if not (folder or from_environment):
        raise NoClusterError(
            "there is no cluster: HADOOP_CONF_DIR is not set, and no cluster of `tony mini` runs. Set HADOOP_CONF_DIR "
            "(or scheduler.yarn.conf) to the folder with core-site.xml and yarn-site.xml, or start one: tony mini start"
        )
    cluster = ClusterClients.of(Configuration.load(folder, environ), environ)
    if not cluster.configuration.get(PROPERTY):
        return cluster
    return replace(cluster, advice="of tony mini: `tony mini restart rm` starts it again")
