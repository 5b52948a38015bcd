"""A real cluster with Kerberos: its own KDC, a principal for each daemon, pages that want a ticket; and users of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.hadoop.clients import resource_manager
from tests.hadoop.kerberos import REALM, Kdc
from tests.mini_clusters import UNVERIFIED, QuickCluster, options
from tests.yarn.lab import YarnLab, user
from tony.errors import SchedulerError
from tony.hadoop import ids
from tony.hadoop.configuration import Configuration
from tony.hadoop.errors import FileMissingError, HadoopError
from tony.hadoop.failover import Policy
from tony.hadoop.wire.application_client import ApplicationReport
from tony.hadoop.wire.yarn_records import NodeState
from tony.mini.cluster import MiniCluster
from tony.mini.cluster_files import to_xml
from tony.mini.cluster_state import ClusterState
from tony.mini.daemons import MiniDaemon
from tony.mini.options import DEFAULT_HADOOP, MiniOptions
from tony.mini.software import find_java
from tony.model.state_directory import Home
from tony.schedulers.yarn.cluster_clients import ClusterClients

#: Who asks comes again.
_IMPATIENT = Policy(give_up_after=0.0, shortest=0.1, longest=0.2)
_PATIENT = Policy(give_up_after=60.0, shortest=0.1, longest=0.5)
#: Who may do everything in HDFS.
_SUPERUSER = "nn/localhost"
#: Who has a home in HDFS, and no account on this machine.
OTHER = "alice"
#: Daemon -> the settings of its principal and of its keytab.
_KEYS = {
    "nn": ("dfs.namenode.kerberos.principal", "dfs.namenode.keytab.file"),
    "dn": ("dfs.datanode.kerberos.principal", "dfs.datanode.keytab.file"),
    "rm": ("yarn.resourcemanager.principal", "yarn.resourcemanager.keytab"),
    "nm": ("yarn.nodemanager.principal", "yarn.nodemanager.keytab"),
    "HTTP": ("dfs.web.authentication.kerberos.principal", "dfs.web.authentication.kerberos.keytab"),
}
#: Of the key store, in which nothing is secret.
_PASSWORD = "changeit"
_WEB = "hadoop.http.authentication"


def secure_options(kdc: Kdc, certificate: Path) -> MiniOptions:
    """Two nodes, Kerberos everywhere, and https for HDFS with this certificate."""
    settings = {
        "hadoop.security.authentication": "kerberos",
        "hadoop.security.authorization": "true",
        "dfs.block.access.token.enable": "true",
        # Everything said by RPC is encrypted, and so is HDFS over HTTP; data goes to DataNodes that proved themselves.
        "hadoop.rpc.protection": "privacy",
        "dfs.data.transfer.protection": "authentication",
        "dfs.http.policy": "HTTPS_ONLY",
        "dfs.namenode.https-address": "${dfs.namenode.http-address}",
        "dfs.datanode.https.address": "${dfs.datanode.http.address}",
        "yarn.nodemanager.admin-env.SSL_CERT_FILE": str(certificate),
        # For it a secure NodeManager needs Hadoop's native library, which is in no archive of Maven's; else it ends.
        "yarn.log-aggregation-enable": "false",
    }
    for name, (principal, keytab) in _KEYS.items():
        settings[principal] = f"{name}/localhost@{REALM}"
        settings[keytab] = str(kdc.keytab(f"{name}/localhost"))
    # WebHDFS believes names if this is not said, even on a cluster with Kerberos.
    settings[f"{_WEB}.type"] = "kerberos"
    settings[f"{_WEB}.kerberos.principal"] = settings[_KEYS["HTTP"][0]]
    settings[f"{_WEB}.kerberos.keytab"] = settings[_KEYS["HTTP"][1]]
    return options(settings, nodes=2)


class Keys:
    """A key and its certificate, which is its own authority, for every page of the cluster.

    Attributes:
        certificate: as a PEM file.
        environment: what makes clients trust it.
    """

    def __init__(self, folder: Path) -> None:
        self._store, self.certificate = folder / "keys.p12", folder / "certificate.pem"
        self.environment = {"SSL_CERT_FILE": str(self.certificate)}
        tool = find_java(os.environ, DEFAULT_HADOOP).home / "bin" / "keytool"
        common = ["-alias", "all", "-keystore", str(self._store), "-storetype", "pkcs12", "-storepass", _PASSWORD]
        new = ["-genkeypair", "-keyalg", "EC", "-dname", "CN=localhost", "-ext", "san=ip:127.0.0.1,dns:localhost"]
        export = ["-exportcert", "-rfc", "-file", str(self.certificate)]
        for command in (new, export):
            subprocess.run([tool, *command, *common], check=True, capture_output=True, timeout=60)

    def write_settings(self, conf: Path) -> None:
        for side in ("server", "client"):
            settings = {}
            for store in ("keystore", "truststore"):
                settings[f"ssl.{side}.{store}.location"] = str(self._store)
                settings[f"ssl.{side}.{store}.password"] = _PASSWORD
                settings[f"ssl.{side}.{store}.type"] = "pkcs12"
            settings[f"ssl.{side}.keystore.keypassword"] = _PASSWORD
            (conf / f"ssl-{side}.xml").write_text(to_xml(settings))


class SecureCluster(QuickCluster):
    """A small cluster with Kerberos: `secure_options`. Its KDC has to run."""

    def __init__(self, home: Home, kdc: Kdc, keys: Keys) -> None:
        super().__init__(home)
        self._kdc, self._keys = kdc, keys

    def client_environment(self, principal: str) -> dict[str, str]:
        """What a client has in its environment, beside the configuration's folder."""
        return {
            **self._kdc.environment,
            "KRB5CCNAME": self._kdc.ticket(principal, lifetime="1d"),
            **self._keys.environment,
        }

    @contextlib.contextmanager
    def as_client(self, principal: str = _SUPERUSER) -> Iterator[ClusterClients]:
        """The cluster as seen by a client in this process with the ticket of `principal`, and no token file."""
        with as_if(self.client_environment(principal)):
            yield ClusterClients.from_configuration(Configuration.load(self.conf, {}), {})

    def _variables(self, state: ClusterState) -> dict[str, str]:
        conf = self._kdc.environment["KRB5_CONFIG"]
        return {**super()._variables(state), "JAVA_TOOL_OPTIONS": f"{UNVERIFIED} -Djava.security.krb5.conf={conf}"}

    def _spawn(self, state: ClusterState, daemon: MiniDaemon) -> ClusterState:
        self._keys.write_settings(self.conf)
        return super()._spawn(state, daemon)

    def _explain_not_ready(self, state: ClusterState, since: Mapping[str, float]) -> str | None:
        """Hadoop's pages want a ticket, so ask as a client does; a NameNode in safe mode gives out no token."""
        try:
            with self.as_client() as cluster, cluster.web_files() as files:
                if not files.get_remaining():
                    return "the DataNode has not registered"
                nodes = asyncio.run(_running_nodes(cluster))
        except (HadoopError, SchedulerError) as error:
            return str(error)
        return None if nodes == self.state.options.nodes else f"{nodes} NodeManagers are there"

    def _initialize(self, state: ClusterState) -> None:
        homes = [(f"/user/{name}", 0o755, name) for name in (user(), OTHER)]
        folders = *homes, ("/tmp", 0o1777, ""), ("/app-logs", 0o1777, "")
        with self.as_client() as cluster, cluster.web_files() as files:
            for path, mode, owner in folders:
                files.make_directories(path)
                files._request_metadata("PUT", path, "SETPERMISSION", {"permission": f"{mode:o}"})
                if owner:
                    files._request_metadata("PUT", path, "SETOWNER", {"owner": owner})


async def _running_nodes(cluster: ClusterClients) -> int:
    async with resource_manager(cluster.configuration, {}, _IMPATIENT) as manager:
        return len(await manager.nodes((NodeState.RUNNING,)))


class SecureLab(YarnLab):
    """One user with a ticket. What others ask of Hadoop's pages is asked as a client here."""

    def __init__(self, root: Path, cluster: MiniCluster) -> None:
        super().__init__(root, cluster)
        assert isinstance(cluster, SecureCluster)
        self.secure = cluster
        self.env |= cluster.client_environment(user())

    def application(self, job: str) -> dict[str, Any]:
        async def report(cluster: ClusterClients) -> ApplicationReport:
            async with resource_manager(cluster.configuration, {}, _PATIENT) as manager:
                return await manager.report(ids.parse_application_id(job))

        with self.secure.as_client(user()) as cluster:
            found = asyncio.run(report(cluster))
        final = found.final_status.name if found.final_status else None
        return {"state": found.state.name if found.state else None, "finalStatus": final}

    def listed(self, path: str) -> dict[str, int]:
        with (
            contextlib.suppress(FileMissingError),
            self.secure.as_client(user()) as cluster,
            cluster.web_files() as files,
        ):
            return {each.name: each.length for each in files.list(path)}
        return {}


@contextlib.contextmanager
def as_if(environment: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
