"""File names of a small cluster. The only module that knows them.

<home>/mini/
  state.json       processes, ports, options
  conf/            HADOOP_CONF_DIR
  logs/<daemon>.log
  bin/python3      the interpreter on the PATH of containers; next to it `hadoop` and `hdfs`
  web/webapps/     empty folders, without which HDFS does not start
  hosts            host names of the nodes, for Java
  tmp/             java.io.tmpdir
  nn/, rm/, dn1/, nm1/...  data of each daemon; nm1/conf/ overrides conf/ for that one
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ClusterLayout:
    """The folder of a cluster in a state directory."""

    path: Path

    @property
    def state(self) -> Path:
        """The state file, see `cluster_state`."""
        return self.path / "state.json"

    @property
    def conf(self) -> Path:
        """The configuration of daemons and clients."""
        return self.path / "conf"

    @property
    def logs(self) -> Path:
        """One log file per daemon."""
        return self.path / "logs"

    @property
    def bin(self) -> Path:
        """Folder that comes first on the nodes' PATH."""
        return self.path / "bin"

    @property
    def web(self) -> Path:
        """Class path entry of HDFS daemons."""
        return self.path / "web"

    @property
    def hosts(self) -> Path:
        """Host names of the nodes, for Java."""
        return self.path / "hosts"

    @property
    def tmp(self) -> Path:
        """Temporary files of the daemons."""
        return self.path / "tmp"

    def find_log(self, daemon: str) -> Path:
        """Return a daemon's log, which covers all of its starts."""
        return self.logs / f"{daemon}.log"

    def find_data_folder(self, daemon: str) -> Path:
        """Return a daemon's data folder."""
        return self.path / daemon

    def find_own_conf(self, daemon: str) -> Path:
        """Return the folder of a daemon's own configuration, which overrides `conf`."""
        return self.find_data_folder(daemon) / "conf"
