"""Where everything of a small cluster lies. The only place that knows these names.

<home>/mini/
  state.json       what runs: processes, ports, options
  conf/            what HADOOP_CONF_DIR names
  logs/<daemon>.log
  bin/python3      the interpreter that containers find on their PATH; beside it `hadoop` and `hdfs`
  web/webapps/     empty folders, without which HDFS does not start
  hosts            the names of the nodes, for Java
  tmp/             java.io.tmpdir
  nn/, rm/, dn1/, nm1/...  what each daemon keeps; nm1/conf/ goes before conf/ for that one
"""

from __future__ import annotations

from pathlib import Path

from tony.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Places:
    """The folder of a home's cluster."""

    path: Path

    @property
    def state(self) -> Path:
        """What runs."""
        return self.path / "state.json"

    @property
    def conf(self) -> Path:
        """The configuration that clients use, too."""
        return self.path / "conf"

    @property
    def logs(self) -> Path:
        """One file for each daemon."""
        return self.path / "logs"

    @property
    def bin(self) -> Path:
        """What comes first on the nodes' PATH."""
        return self.path / "bin"

    @property
    def web(self) -> Path:
        """Goes on the class path of HDFS."""
        return self.path / "web"

    @property
    def hosts(self) -> Path:
        """The names of the nodes, for Java."""
        return self.path / "hosts"

    @property
    def tmp(self) -> Path:
        """Temporary files of the daemons."""
        return self.path / "tmp"

    def log(self, daemon: str) -> Path:
        """What a daemon prints, over all of its starts."""
        return self.logs / f"{daemon}.log"

    def of(self, daemon: str) -> Path:
        """What a daemon keeps."""
        return self.path / daemon

    def own_conf(self, daemon: str) -> Path:
        """What differs from `conf` for one daemon."""
        return self.of(daemon) / "conf"
