"""Readiness of a cluster, according to the web servers of its daemons."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from tony.errors import InfraError
from tony.mini.cluster_state import ClusterState
from tony.mini.daemon_commands import DaemonKind, MiniDaemon
from tony.mini.daemon_http import send_request


class ClusterNotReadyError(Exception):
    """The cluster is not ready; the message says why."""


def explain_not_ready(state: ClusterState, since: Mapping[str, float]) -> str | None:
    """Return why the cluster is not ready, as a phrase; None if it is.

    Args:
        since: daemon -> start time in seconds since 1970, for daemons that have just been restarted: the others may
            still know their previous process, which does not count.
    """
    try:
        _check_hdfs(state, since)
        _check_yarn(state, since)
    except ClusterNotReadyError as reason:
        return str(reason)
    return None


def _get(state: ClusterState, port: str, path: str, name: str) -> Any:
    try:
        return json.loads(send_request(state.address(port), "GET", path))
    except (InfraError, ValueError) as error:
        raise ClusterNotReadyError(f"{name} does not respond") from error


def _bean(state: ClusterState, port: str, bean: str, name: str) -> Any:
    beans = _get(state, port, f"/jmx?qry={quote(bean, safe='')}", name).get("beans")
    if not beans:
        raise ClusterNotReadyError(f"{name} is starting")
    return beans[0]


def _check_hdfs(state: ClusterState, since: Mapping[str, float]) -> None:
    facts = _bean(state, "nn.web", "Hadoop:service=NameNode,name=NameNodeInfo", "the NameNode")
    live = len(json.loads(facts.get("LiveNodes") or "{}"))
    if live < state.options.datanodes:
        raise ClusterNotReadyError(f"{live} of {state.options.datanodes} DataNodes are live")
    for daemon in state.daemons:
        if daemon.kind is DaemonKind.DATA_NODE and daemon.name in since:
            _check_data_node(state, daemon)
    if facts.get("Safemode"):
        raise ClusterNotReadyError("the NameNode is in safe mode")


def _check_data_node(state: ClusterState, daemon: MiniDaemon) -> None:
    facts = _bean(state, f"{daemon.name}.web", "Hadoop:service=DataNode,name=DataNodeInfo", daemon.name)
    actors = json.loads(facts.get("BPServiceActorInfo") or "[]")
    if not any(actor.get("ActorState") == "RUNNING" for actor in actors):
        raise ClusterNotReadyError(f"{daemon.name} has not registered")


def _check_yarn(state: ClusterState, since: Mapping[str, float]) -> None:
    found = _get(state, "rm.web", "/ws/v1/cluster/nodes?states=RUNNING", "the ResourceManager").get("nodes") or {}
    nodes = {node["id"]: node for node in found.get("node", [])}
    node_managers = [daemon for daemon in state.daemons if daemon.kind is DaemonKind.NODE_MANAGER]
    missing = [daemon.name for daemon in node_managers if not _is_running(state, daemon, nodes, since.get(daemon.name))]
    if missing:
        running = len(node_managers) - len(missing)
        raise ClusterNotReadyError(
            f"{running} of {len(node_managers)} NodeManagers are running ({', '.join(missing)} not)"
        )


def _is_running(state: ClusterState, daemon: MiniDaemon, nodes: Mapping[str, Any], since: float | None) -> bool:
    port = state.ports[f"{daemon.name}.rpc"]
    node = next((node for name, node in nodes.items() if name.rpartition(":")[2] == str(port)), None)
    if node is None:
        return False
    return since is None or node.get("lastHealthUpdate", 0) / 1000 >= since


def wait(
    ask: Callable[[], str | None],
    alive: Callable[[], None],
    timeout: float,
    pause: float = 0.1,
) -> None:
    """Wait until `ask` returns None.

    Args:
        ask: returns what is waited for.
        alive: raises if waiting is pointless.

    Raises:
        InfraError: timeout; says what was waited for.
    """
    deadline = time.monotonic() + timeout
    while (reason := ask()) is not None:
        alive()
        if time.monotonic() >= deadline:
            raise InfraError(f"the cluster was not ready after {timeout:.0f} s: {reason}; see: tony mini status")
        time.sleep(pause)
