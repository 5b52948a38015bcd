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

from pathlib import Path


class ClusterLayout:
    """The folder of a cluster in a state directory.

    Attributes:
        state: the state file, see `cluster_state`.
        conf: the configuration of daemons and clients.
        bin: folder that comes first on the nodes' PATH.
        web: class path entry of HDFS daemons.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.state = path / "state.json"
        self.conf = path / "conf"
        self.logs = path / "logs"
        self.bin = path / "bin"
        self.web = path / "web"
        self.hosts = path / "hosts"
        self.tmp = path / "tmp"

    def find_log(self, daemon: str) -> Path:
        """Return a daemon's log, which covers all of its starts."""
        return self.logs / f"{daemon}.log"

    def find_data_folder(self, daemon: str) -> Path:
        """Return a daemon's data folder."""
        return self.path / daemon

    def find_own_conf(self, daemon: str) -> Path:
        """Return the folder of a daemon's own configuration, which overrides `conf`."""
        return self.path / daemon / "conf"
