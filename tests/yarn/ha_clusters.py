"""A real cluster whose masters are pairs: two ResourceManagers and two NameNodes, one of each active; and users of it.

The tests alone decide which is active: there is no ZooKeeper, and no controller that would fail over by itself.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from dataclasses import replace
from enum import IntEnum
from pathlib import Path
from typing import Final

from tests.mini_clusters import QuickCluster, options
from tests.yarn.lab import YarnLab, until, user
from tony.address import parse_address
from tony.hadoop.errors import HadoopError
from tony.hadoop.ipc.connection import connect
from tony.hadoop.ipc.login import LoginIdentity
from tony.hadoop.wire.proto import ENUM, ProtoMessage, optional, required
from tony.hadoop.wire.rpc import Method, Request, Response
from tony.mini.cluster import MiniCluster
from tony.mini.cluster_state import ClusterState
from tony.mini.daemons import MiniDaemon
from tony.mini.free_ports import choose_ports
from tony.mini.layout import ClusterLayout
from tony.mini.options import HadoopProperty, MiniOptions

#: The members of each pair, as the cluster's daemons are called.
PAIRS: Final = {"rm": ("rm", "rm2"), "nn": ("nn", "nn2")}
#: The name of the file system, which is no host's.
FILES: Final = "pair"
#: The target of Hadoop's settings without an id, which must not be used here.
_NOWHERE = "127.0.0.1:1"
#: Ports of a ResourceManager, and the settings of them.
_SERVICES = {
    "client": "address",
    "scheduler": "scheduler.address",
    "tracker": "resource-tracker.address",
    "admin": "admin.address",
    "web": "webapp.address",
}
_HA_PROTOCOL = "org.apache.hadoop.ha.HAServiceProtocol"


class Standing(IntEnum):
    """What a member of a pair is."""

    INITIALIZING = 0
    ACTIVE = 1
    STANDBY = 2


class _Asker(IntEnum):
    USER = 0


class _RequestInfo(ProtoMessage):
    asker: _Asker = required(1, ENUM(_Asker))


class _ChangeRequest(ProtoMessage):
    info: _RequestInfo = required(1, _RequestInfo)


class _StatusResponse(ProtoMessage):
    standing: Standing | None = optional(1, ENUM(Standing))


class Nothing(ProtoMessage):
    """Where nothing is asked, or said."""


_STATUS = Method(protocol=_HA_PROTOCOL, name="getServiceStatus", request=Nothing, response=_StatusResponse)
_CHANGES = {
    standing: Method(protocol=_HA_PROTOCOL, name=name, request=_ChangeRequest, response=Nothing)
    for standing, name in ((Standing.ACTIVE, "transitionToActive"), (Standing.STANDBY, "transitionToStandby"))
}


def paired_options() -> MiniOptions:
    """What a `PairedCluster` is to be; the addresses are its own business."""
    settings = {
        "fs.defaultFS": f"hdfs://{FILES}",
        "dfs.nameservices": FILES,
        f"dfs.ha.namenodes.{FILES}": ",".join(map(_id, PAIRS["nn"])),
        f"dfs.client.failover.proxy.provider.{FILES}": (
            "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
        ),
        "dfs.ha.standby.checkpoints": "false",
        "dfs.namenode.rpc-address": _NOWHERE,
        "dfs.namenode.http-address": _NOWHERE,
        "yarn.resourcemanager.ha.enabled": "true",
        "yarn.resourcemanager.ha.automatic-failover.enabled": "false",
        "yarn.resourcemanager.ha.rm-ids": ",".join(map(_id, PAIRS["rm"])),
        "yarn.resourcemanager.cluster-id": "pair",
        **{f"yarn.resourcemanager.{service}": _NOWHERE for service in _SERVICES.values()},
        "yarn.am.liveness-monitor.expiry-interval-ms": "120000",
    }
    return options(settings, nodes=2)


class PairedCluster(QuickCluster):
    """A small cluster of `paired_options`. The first of each pair is active when it has started."""

    def standing(self, name: str) -> Standing | None:
        """What a member of a pair is; None if it does not answer."""
        return _standing(self.state, name)

    def active(self, pair: str) -> str | None:
        """The member of a pair that is active, if one is."""
        return _active(self.state, pair)

    def activate(self, name: str) -> None:
        """Makes a member of a pair the active one; the other one standby, if it lives."""
        for other in PAIRS[MiniDaemon(name).kind.value]:
            if other != name and self.standing(other) is Standing.ACTIVE:
                self.tell(other, Standing.STANDBY)
        if self.standing(name) is not Standing.ACTIVE:
            self.tell(name, Standing.ACTIVE)
        self.wait()

    def tell(self, name: str, standing: Standing) -> None:
        """Has a member of a pair be active, or standby, whatever the other one is."""
        _tell(self.state, name, standing)

    def _plan(self, options: MiniOptions, java: str, jars: str) -> ClusterState:
        others = tuple(name for pair in PAIRS.values() for name in pair[1:])
        state = replace(super()._plan(options, java, jars), others=others)
        state = replace(state, ports=choose_ports(port for daemon in state.daemons for port in daemon.ports))
        return replace(state, options=replace(options, settings=(*options.settings, *_addresses(state, self.places))))

    def _spawn(self, state: ClusterState, daemon: MiniDaemon) -> ClusterState:
        folder = self.places.find_data_folder(daemon.name)
        if daemon.name == "nn2" and not (folder / "name").exists():  # the first was just formatted
            shutil.copytree(self.places.find_data_folder("nn") / "name", folder / "name")
        return super()._spawn(state, daemon)

    def _explain_not_ready(self, state: ClusterState, since: Mapping[str, float]) -> str | None:
        """All running daemons are ready, and one of each pair is active, the first if none is; then as for any
        cluster."""
        living = state.find_running()
        for pair, members in PAIRS.items():
            there = [name for name in members if name in living]
            for name in there:
                if _standing(state, name) not in (Standing.ACTIVE, Standing.STANDBY):
                    return f"{name} is starting"
            if _active(state, pair) is None:
                try:
                    _tell(state, there[0], Standing.ACTIVE)
                except HadoopError as error:
                    return f"{there[0]} does not become active: {error}"
        return super()._explain_not_ready(_as_seen(state), since)

    def _initialize(self, state: ClusterState) -> None:
        super()._initialize(_as_seen(state))


class PairedLab(YarnLab):
    """One user. What others ask of Hadoop's pages is asked of those who are active."""

    def __init__(self, root: Path, cluster: MiniCluster) -> None:
        super().__init__(root, cluster)
        assert isinstance(cluster, PairedCluster)
        self.pairs = cluster

    def page(self, daemon: str) -> str:
        return self.cluster.state.address(f"{until(lambda: self.pairs.active(daemon), 'one is active')}.web")


def _id(name: str) -> str:
    """What Hadoop's configuration calls a member: `rm1`."""
    return name if name[-1].isdigit() else f"{name}1"


def _addresses(state: ClusterState, places: ClusterLayout) -> list[HadoopProperty]:
    """Where each member listens, and for each who it is itself."""
    found = [HadoopProperty(key="dfs.namenode.shared.edits.dir", value=(places.path / "edits").as_uri())]
    for name in PAIRS["rm"]:
        found += [
            HadoopProperty(key=f"yarn.resourcemanager.{service}.{_id(name)}", value=state.address(f"{name}.{port}"))
            for port, service in _SERVICES.items()
        ]
        found.append(HadoopProperty(key="yarn.resourcemanager.ha.id", value=_id(name), daemon=name))
    for name in PAIRS["nn"]:
        for port, service in (("rpc", "rpc-address"), ("web", "http-address")):
            key = f"dfs.namenode.{service}.{FILES}.{_id(name)}"
            found.append(HadoopProperty(key=key, value=state.address(f"{name}.{port}")))
        found.append(HadoopProperty(key="dfs.ha.namenode.id", value=_id(name), daemon=name))
        found.append(
            HadoopProperty(
                key="dfs.namenode.name.dir", value=(places.find_data_folder(name) / "name").as_uri(), daemon=name
            ),
        )
    return found


def _as_seen(state: ClusterState) -> ClusterState:
    """A cluster without pairs: those who are active stand for them."""
    known = dict(state.ports)
    for pair, members in PAIRS.items():
        active = _active(state, pair) or members[0]
        known |= {f"{pair}.{port.partition('.')[2]}": state.ports[port] for port in MiniDaemon(active).ports}
    return replace(state, ports=known)


def _active(state: ClusterState, pair: str) -> str | None:
    living = state.find_running()
    found = (name for name in PAIRS[pair] if name in living and _standing(state, name) is Standing.ACTIVE)
    return next(found, None)


def _standing(state: ClusterState, name: str) -> Standing | None:
    try:
        return asyncio.run(_ask(state, name, _STATUS, Nothing())).standing
    except HadoopError:
        return None


def _tell(state: ClusterState, name: str, standing: Standing) -> None:
    asyncio.run(_ask(state, name, _CHANGES[standing], _ChangeRequest(info=_RequestInfo(asker=_Asker.USER)), 120.0))


async def _ask(
    state: ClusterState, name: str, method: Method[Request, Response], request: Request, timeout: float = 10.0
) -> Response:
    port = "rpc" if MiniDaemon(name).kind.value == "nn" else "admin"
    address = parse_address(state.address(f"{name}.{port}"), 0)
    connection = await connect(address, LoginIdentity(user=user()), protocol=_HA_PROTOCOL)
    try:
        return await connection.call(method, request, timeout=timeout)
    finally:
        await connection.close()
