"""A real cluster with Kerberos: its own KDC, a principal for each daemon, pages that want a ticket; and users of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tests.hadoop.kerberos import REALM, Kdc
from tests.mini_clusters import options
from tests.yarn.lab import YarnLab, user
from tony.hadoop import ids, services
from tony.hadoop.configuration import Configuration
from tony.hadoop.failover import Policy
from tony.hadoop.hdfs.files import FileStatus
from tony.hadoop.ipc.errors import FileMissingError, HadoopError
from tony.hadoop.wire.records import NodeState
from tony.hadoop.wire.reports import ApplicationReport
from tony.mini.cluster import Cluster
from tony.mini.options import Options
from tony.mini.state import State
from tony.model.layout import Home

T = TypeVar("T")

#: Who asks comes again.
_IMPATIENT = Policy(patience=0.0, shortest=0.1, longest=0.2)
_PATIENT = Policy(patience=60.0, shortest=0.1, longest=0.5)
#: Who may do everything in HDFS.
_SUPERUSER = "nn/localhost"
#: Daemon -> the settings of its principal and of its keytab.
_KEYS = {
    "nn": ("dfs.namenode.kerberos.principal", "dfs.namenode.keytab.file"),
    "dn": ("dfs.datanode.kerberos.principal", "dfs.datanode.keytab.file"),
    "rm": ("yarn.resourcemanager.principal", "yarn.resourcemanager.keytab"),
    "nm": ("yarn.nodemanager.principal", "yarn.nodemanager.keytab"),
    "HTTP": ("dfs.web.authentication.kerberos.principal", "dfs.web.authentication.kerberos.keytab"),
}
_WEB = "hadoop.http.authentication"


def secure_options(kdc: Kdc) -> Options:
    """Two nodes, and Kerberos everywhere."""
    settings = {
        "hadoop.security.authentication": "kerberos",
        "hadoop.security.authorization": "true",
        "dfs.block.access.token.enable": "true",
        "ignore.secure.ports.for.testing": "true",
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


class SecureCluster(Cluster):
    """A small cluster that wants proofs of everybody: `secure_options`. Its KDC has to run."""

    def __init__(self, home: Home, kdc: Kdc) -> None:
        """Nothing is started yet."""
        super().__init__(home, os.environ)
        self._kdc = kdc

    def client_environment(self, principal: str) -> dict[str, str]:
        """What a client has in its environment, beside the configuration's folder."""
        return {**self._kdc.environment, "KRB5CCNAME": self._kdc.ticket(principal, lifetime="1d")}

    def ask(self, work: Callable[[Configuration], Coroutine[None, None, T]], principal: str = _SUPERUSER) -> T:
        """Does something over RPC as somebody; their ticket lies where the system's Kerberos looks for it."""
        with as_if(self.client_environment(principal)):
            return asyncio.run(work(Configuration.load(self.conf, {})))

    def _variables(self, state: State) -> dict[str, str]:
        conf = self._kdc.environment["KRB5_CONFIG"]
        return {**super()._variables(state), "JAVA_TOOL_OPTIONS": f"-Djava.security.krb5.conf={conf}"}

    def _missing(self, state: State, since: Mapping[str, float]) -> str | None:
        """Over RPC: Hadoop's pages want a ticket as well."""
        try:
            return self.ask(self._look)
        except HadoopError as error:
            return str(error)

    async def _look(self, settings: Configuration) -> str | None:
        async with services.name_node(settings, {}, policy=_IMPATIENT) as files:
            if not (await files.space()).capacity:
                return "the DataNode has not registered"
            if await files.is_in_safe_mode():
                return "the NameNode is in safe mode"
        async with services.resource_manager(settings, {}, policy=_IMPATIENT) as manager:
            nodes = await manager.nodes((NodeState.RUNNING,))
            return None if len(nodes) == self.state.options.nodes else f"{len(nodes)} NodeManagers are there"

    def _furnish(self, state: State) -> None:
        self.ask(self._make_folders)

    async def _make_folders(self, settings: Configuration) -> None:
        async with services.name_node(settings, {}, policy=_PATIENT) as client:
            folders = (f"/user/{user()}", 0o755, user()), ("/tmp", 0o1777, ""), ("/app-logs", 0o1777, "")
            for path, mode, owner in folders:
                await client.make_folder(path, mode)
                await client.set_permission(path, mode)
                if owner:
                    await client.set_owner(path, owner=owner)


class SecureLab(YarnLab):
    """One user with a ticket. What others ask of Hadoop's pages is asked over RPC here."""

    def __init__(self, root: Path, cluster: Cluster) -> None:
        """The cluster runs."""
        super().__init__(root, cluster)
        assert isinstance(cluster, SecureCluster)
        self.secure = cluster
        self.env |= cluster.client_environment(user())

    def application(self, job: str) -> dict[str, Any]:
        async def report(settings: Configuration) -> ApplicationReport:
            async with services.resource_manager(settings, {}, policy=_PATIENT) as manager:
                return await manager.report(ids.application_id(job))

        found = self.secure.ask(report, user())
        final = found.final_status.name if found.final_status else None
        return {"state": found.state.name if found.state else None, "finalStatus": final}

    def listed(self, path: str) -> dict[str, int]:
        async def listing(settings: Configuration) -> list[FileStatus]:
            async with services.name_node(settings, {}, policy=_PATIENT) as client:
                return await client.list(path)

        with contextlib.suppress(FileMissingError):
            return {each.name: each.length for each in self.secure.ask(listing, user())}
        return {}


@contextlib.contextmanager
def as_if(environment: Mapping[str, str]) -> Iterator[None]:
    """This process with other variables."""
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
