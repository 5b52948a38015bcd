"""The executor in a YARN container: its launch payload, its files, and Hadoop's variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tony.errors import StorageError
from tony.model.staged_files import StagedItem
from tony.protocol.launch import TaskLaunch
from tony.schedulers.container_interface import ExecutorContainer
from tony.schedulers.yarn.container_env import ContainerEnv
from tony.schedulers.yarn.launch_payload import TASK

#: Variables that a program needs to find Hadoop's file system, if the node sets them.
_HADOOP = (
    "HADOOP_CONF_DIR",
    "HADOOP_TOKEN_FILE_LOCATION",
    "HADOOP_USER_NAME",
    "HADOOP_HOME",
    "HADOOP_COMMON_HOME",
    "HADOOP_HDFS_HOME",
    "JAVA_HOME",
    "CONTAINER_ID",
)


class YarnExecutorContainer(ExecutorContainer):
    """The container of a task.

    Raises:
        PlatformError: this is not a YARN container.
    """

    def __init__(self) -> None:
        self._container = ContainerEnv.from_environ(os.environ)
        self.host, self.folder = self._container.host, self._container.folder
        self.logs, self.shared = self._container.logs, self._container.shared

    def take_task(self) -> TaskLaunch:
        launch, _ = self._container.take_payload(TASK, TaskLaunch)
        plug_in = self._container.plug_in(launch.task.framework_path)
        return replace(launch, task=replace(launch.task, framework_path=plug_in))

    def fetch(self, item: StagedItem) -> Path:
        localized = (self.folder / item.digest).resolve()
        if not localized.is_file():
            raise StorageError(f"YARN has not localized {item.name} ({item.digest}) in {self.folder}")
        return localized

    def variables(self) -> dict[str, str]:
        return hadoop_variables(os.environ)


def hadoop_variables(own: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that Hadoop's clients in the user's program need.

    Without Kerberos HDFS trusts the user name that a client sends, by default that of the process: on many clusters
    that is the NodeManager's user. YARN sets USER to the container's owner.
    """
    found = {name: own[name] for name in _HADOOP if own.get(name)}
    if own.get("USER"):
        found.setdefault("HADOOP_USER_NAME", own["USER"])
    return found
