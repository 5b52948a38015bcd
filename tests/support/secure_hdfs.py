"""A NameNode and a DataNode with Kerberos in another network namespace, and their KDC: HDFS that pods can reach."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import tony
from tests.hadoop.kerberos import REALM, Kdc
from tests.mini_clusters import UNVERIFIED
from tests.support.waiting import block_until
from tony.mini import processes
from tony.mini.cluster_files import write_files
from tony.mini.cluster_state import ClusterState
from tony.mini.daemons import MiniDaemon, command
from tony.mini.free_ports import choose_ports
from tony.mini.layout import ClusterLayout
from tony.mini.options import DEFAULT_HADOOP, HadoopProperty, MiniOptions
from tony.mini.software import fetch, find_java

_DAEMONS = (MiniDaemon("nn"), MiniDaemon("dn1"))
_CONNECT = """
import sys
from tony.hadoop.configuration import Configuration
from tony.storage.hdfs.hdfs_clients import HdfsClients
hdfs = HdfsClients.from_configuration(Configuration.load(sys.argv[1], {}), {})
"""
#: Creates the home of a user, as soon as the DataNode has registered.
_PREPARE = f"""{_CONNECT}
with hdfs.web_files() as files:
    if not files.get_remaining():
        sys.exit("the DataNode has not registered")
    for user in sys.argv[2:]:
        files.make_directories("/user/" + user)
        files._request_metadata("PUT", "/user/" + user, "SETOWNER", dict(owner=user))
"""
_WRITE = f"""{_CONNECT}
with hdfs.web_files() as files:
    files.create(sys.argv[2], sys.argv[3].encode(), permission=0o600, overwrite=True)
"""


class SecureHdfs:
    """HDFS with a KDC.

    Attributes:
        conf: the value for HADOOP_CONF_DIR.
        uri: of the file system.
        web: `host:port` of the NameNode's web interface.
    """

    def __init__(self, folder: Path, kdc: Kdc, host: str, enter: Sequence[str], settings: Mapping[str, str]) -> None:
        self.kdc, self.host, self.enter = kdc, host, enter
        # Of both daemons, and of who may do everything in HDFS. A daemon connects from the address in its principal.
        self._principal = f"nn/{host}"
        java = find_java(os.environ, DEFAULT_HADOOP)
        jars = fetch(DEFAULT_HADOOP, java, os.environ, print)
        ports = choose_ports(["nn.rpc", "nn.web", "dn1.data", "dn1.ipc", "dn1.web"])
        self.uri, self.web = f"hdfs://{host}:{ports['nn.rpc']}", f"{host}:{ports['nn.web']}"
        given = {**self._build_settings(ports), **settings}
        others = choose_ports([name for each in ("rm", "nm1") for name in MiniDaemon(each).ports])
        self._state = ClusterState(
            options=MiniOptions(nodes=1, settings=tuple(HadoopProperty.read(f"{key}={given[key]}") for key in given)),
            java=str(java.home),
            jars=str(jars),
            path=os.environ["PATH"],
            ports={**ports, **others},
        )
        self._places = ClusterLayout(folder)
        self.conf = self._places.conf

    def _build_settings(self, ports: Mapping[str, int]) -> dict[str, str]:
        principal, keytab = f"{self._principal}@{REALM}", str(self.kdc.keytab(self._principal))
        web = f"HTTP/localhost@{REALM}"
        found = {
            "fs.defaultFS": self.uri,
            "dfs.namenode.rpc-address": self.uri.removeprefix("hdfs://"),
            "dfs.namenode.http-address": self.web,
            "dn1:dfs.datanode.hostname": self.host,
            "dn1:dfs.datanode.address": f"{self.host}:{ports['dn1.data']}",
            "dn1:dfs.datanode.ipc.address": f"{self.host}:{ports['dn1.ipc']}",
            "dn1:dfs.datanode.http.address": f"{self.host}:{ports['dn1.web']}",
            "hadoop.security.authentication": "kerberos",
            "hadoop.security.authorization": "true",
            "dfs.block.access.token.enable": "true",
            "ignore.secure.ports.for.testing": "true",  # a DataNode's ports are those of a user
            "hadoop.http.authentication.type": "kerberos",
        }
        for prefix in ("dfs.namenode", "dfs.datanode"):
            found |= {f"{prefix}.kerberos.principal": principal, f"{prefix}.keytab.file": keytab}
        for prefix in ("dfs.web.authentication", "hadoop.http.authentication"):
            keys = str(self.kdc.keytab("HTTP/localhost"))
            found |= {f"{prefix}.kerberos.principal": web, f"{prefix}.kerberos.keytab": keys}
        return found

    def start(self, users: Sequence[str]) -> None:
        """Start the daemons, and create the homes of users."""
        write_files(self._state, self._places)
        variables = {
            **processes.environment(self._state, self._places, os.environ),
            "JAVA_TOOL_OPTIONS": f"{UNVERIFIED} -Djava.security.krb5.conf={self.kdc.environment['KRB5_CONFIG']}",
        }
        formatting = self._build_command(MiniDaemon("nn"), "-format", "-nonInteractive")
        subprocess.run(formatting, env=variables, check=True, capture_output=True)
        for daemon in _DAEMONS:
            log = self._places.find_log(daemon.name)
            pid = processes.spawn(self._build_command(daemon), variables, self._places.path, log)
            self._state = self._state.with_process(daemon, pid)
        prepare = [*self.enter, sys.executable, "-c", _PREPARE, str(self.conf), *users]
        environment = {**os.environ, **self.client_environment(self._principal)}
        block_until(lambda: subprocess.run(prepare, env=environment, capture_output=True, check=False).returncode == 0)

    def _build_command(self, daemon: MiniDaemon, *arguments: str) -> list[str]:
        java, jars = Path(self._state.java), Path(self._state.jars)
        return [*self.enter, *command(daemon, java, jars, self._places, *arguments)]

    def client_environment(self, principal: str) -> dict[str, str]:
        """Return the environment of a client with the ticket of a principal."""
        source = str(Path(tony.__file__).parents[1])
        ticket = self.kdc.ticket(principal)
        return {
            **self.kdc.environment,
            "KRB5CCNAME": ticket,
            "HADOOP_CONF_DIR": str(self.conf),
            "PYTHONPATH": source,
        }

    def write(self, principal: str, path: str, text: str) -> None:
        """Create a file that only its owner can read."""
        environment = {**os.environ, **self.client_environment(principal)}
        line = [*self.enter, sys.executable, "-c", _WRITE, str(self.conf), path, text]
        block_until(lambda: subprocess.run(line, env=environment, check=False).returncode == 0)

    def find_log(self, daemon: str) -> Path:
        """Return a daemon's log."""
        return self._places.find_log(daemon)

    def stop(self) -> None:
        """End the daemons."""
        processes.sweep(self._places)


@contextmanager
def run_secure_hdfs(
    folder: Path, host: str, enter: Sequence[str], users: Sequence[str], settings: Mapping[str, str]
) -> Iterator[SecureHdfs]:
    """Run HDFS and its KDC; nothing is left of them.

    Args:
        host: an address where `enter` runs programs.
        users: principals that have a home.
        settings: of Hadoop.
    """
    for name in ("kdc", "hdfs"):
        (folder / name).mkdir()
    kdc = Kdc(folder / "kdc", host, enter)
    kdc.start()
    try:
        hdfs = SecureHdfs(folder / "hdfs", kdc, host, enter, settings)
        try:
            hdfs.start(users)
            yield hdfs
        finally:
            hdfs.stop()
    finally:
        kdc.stop()
