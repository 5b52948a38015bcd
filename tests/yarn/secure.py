"""A real cluster with Kerberos: its own KDC, a principal for each daemon, and one for the user of the tests."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import TypeVar

from tests.hadoop.kerberos import REALM, Kdc
from tests.yarn.lab import user
from tony.hadoop import services
from tony.hadoop.configuration import Configuration
from tony.hadoop.failover import Policy
from tony.hadoop.ipc.errors import HadoopError
from tony.hadoop.wire.records import NodeState
from tony.mini.cluster import Cluster
from tony.mini.options import Options, Setting
from tony.mini.state import State
from tony.model.layout import Home

T = TypeVar("T")

#: Who asks comes again.
_IMPATIENT = Policy(patience=0.0, shortest=0.1, longest=0.2)
#: Daemon -> the settings of its principal and of its keytab.
_KEYS = {
    "nn": ("dfs.namenode.kerberos.principal", "dfs.namenode.keytab.file"),
    "dn": ("dfs.datanode.kerberos.principal", "dfs.datanode.keytab.file"),
    "rm": ("yarn.resourcemanager.principal", "yarn.resourcemanager.keytab"),
    "nm": ("yarn.nodemanager.principal", "yarn.nodemanager.keytab"),
    "HTTP": ("dfs.web.authentication.kerberos.principal", "dfs.web.authentication.kerberos.keytab"),
}
_WEB = "hadoop.http.authentication"


class SecureCluster(Cluster):
    """A small cluster that wants proofs of everybody. Started with `start(options())`.

    Attributes:
        ticket: what KRB5CCNAME of the tests' user has to be.
    """

    def __init__(self, home: Home, kdc: Kdc) -> None:
        """The KDC has to run."""
        super().__init__(home, os.environ)
        self._kdc = kdc
        self.ticket = kdc.ticket(user(), lifetime="1d")

    @property
    def client_environment(self) -> dict[str, str]:
        """What a client needs, beside the configuration's folder."""
        return {**self._kdc.environment, "KRB5CCNAME": self.ticket}

    def options(self, nodes: int = 2) -> Options:
        """A cluster of two nodes with Kerberos everywhere but on the pages for people."""
        settings = {
            "hadoop.security.authentication": "kerberos",
            "hadoop.security.authorization": "true",
            "dfs.block.access.token.enable": "true",
            "ignore.secure.ports.for.testing": "true",
        }
        for name, (principal, keytab) in _KEYS.items():
            settings[principal] = f"{name}/localhost@{REALM}"
            settings[keytab] = str(self._kdc.keytab(f"{name}/localhost"))
        # WebHDFS believes names if this is not said, even on a cluster with Kerberos.
        settings[f"{_WEB}.type"] = "kerberos"
        settings[f"{_WEB}.kerberos.principal"] = settings[_KEYS["HTTP"][0]]
        settings[f"{_WEB}.kerberos.keytab"] = settings[_KEYS["HTTP"][1]]
        return Options(nodes=nodes, settings=tuple(Setting.read(f"{key}={value}") for key, value in settings.items()))

    def _variables(self, state: State) -> dict[str, str]:
        conf = self._kdc.environment["KRB5_CONFIG"]
        return {**super()._variables(state), "JAVA_TOOL_OPTIONS": f"-Djava.security.krb5.conf={conf}"}

    def _missing(self, state: State, since: Mapping[str, float]) -> str | None:
        """Over RPC: Hadoop's pages want a ticket as well."""
        try:
            return self._as_name_node(self._look)
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
        self._as_name_node(self._make_folders)

    async def _make_folders(self, settings: Configuration) -> None:
        async with services.name_node(settings, {}, policy=_IMPATIENT) as client:
            folders = (f"/user/{user()}", 0o755, user()), ("/tmp", 0o1777, ""), ("/app-logs", 0o1777, "")
            for path, mode, owner in folders:
                await client.make_folder(path, mode)
                await client.set_permission(path, mode)
                if owner:
                    await client.set_owner(path, owner=owner)

    def _as_name_node(self, work: Callable[[Configuration], Coroutine[None, None, T]]) -> T:
        """As the user who may do everything."""
        ours = {**self._kdc.environment, "KRB5CCNAME": self._kdc.ticket("nn/localhost", lifetime="1d")}
        before = {name: os.environ.get(name) for name in ours}
        os.environ.update(ours)  # where the system's Kerberos looks
        try:
            return asyncio.run(work(Configuration.load(self.conf, {})))
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def start(home: Path, kdc: Kdc) -> SecureCluster:
    """One that is ready."""
    cluster = SecureCluster(Home(home), kdc)
    cluster.start(cluster.options(), print)
    return cluster
