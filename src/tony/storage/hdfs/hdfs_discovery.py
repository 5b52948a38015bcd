"""Find the HDFS that a client uses. Processes inside a cluster get its configuration with their launch payload."""

from __future__ import annotations

import os
from collections.abc import Mapping

from tony.hadoop.configuration import Configuration
from tony.mini import conf_dir
from tony.model.layout import Home
from tony.storage.hdfs.hdfs_clients import HdfsClients


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
    # Errors name the environment variable if the folder comes from one, so leave it to `Configuration.load`.
    if not conf and (environ.get("HADOOP_CONF_DIR") or environ.get("YARN_CONF_DIR")):
        return Configuration.load(None, environ)
    folder = conf or conf_dir(home)
    return Configuration.load(folder, environ) if folder else None


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
