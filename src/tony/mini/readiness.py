"""Readiness of a cluster, according to the web servers of its daemons."""

from __future__ import annotations

import http.client
import json
import random
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tony.errors import InfraError
from tony.mini.cluster_state import ClusterState
from tony.mini.daemon_commands import DaemonKind, MiniDaemon

#: Timeout in seconds of one response; a starting daemon may accept a connection without responding.
_TIMEOUT_SECONDS = 5.0


class NotYet(Exception):  # noqa: N818 - not an error: a negative result
    """The cluster is not ready; the message says why."""


def waiting_for(state: ClusterState, since: Mapping[str, float]) -> str | None:
    """Return why the cluster is not ready, as a phrase; None if it is.

    Args:
        since: daemon -> start time in seconds since 1970, for daemons that have just been restarted: the others may
            still know their previous process, which does not count.
    """
    try:
        _check_hdfs(state, since)
        _check_yarn(state, since)
    except NotYet as reason:
        return str(reason)
    return None


def send(address: str, method: str, path: str, body: str | None = None, timeout: float = _TIMEOUT_SECONDS) -> bytes:
    """Send one request to a daemon's web server.

    Args:
        body: JSON.
        timeout: timeout in seconds.

    Raises:
        InfraError: it refused, or is not reachable.
    """
    connection = http.client.HTTPConnection(address, timeout=timeout)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json", "Accept": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise InfraError(f"{method} http://{address}{path}: {error}") from error
    finally:
        connection.close()
    if answer.status not in (200, 202):  # done, or accepted
        text = content.decode(errors="replace")[:500]
        raise InfraError(f"{method} http://{address}{path}: {answer.status} {answer.reason}: {text}")
    return content


def _get(state: ClusterState, port: str, path: str, name: str) -> Any:
    try:
        return json.loads(send(state.address(port), "GET", path))
    except (InfraError, ValueError) as error:
        raise NotYet(f"{name} does not respond") from error


def _bean(state: ClusterState, port: str, bean: str, name: str) -> Any:
    beans = _get(state, port, f"/jmx?qry={quote(bean, safe='')}", name).get("beans")
    if not beans:
        raise NotYet(f"{name} is starting")
    return beans[0]


def _check_hdfs(state: ClusterState, since: Mapping[str, float]) -> None:
    facts = _bean(state, "nn.web", "Hadoop:service=NameNode,name=NameNodeInfo", "the NameNode")
    live = len(json.loads(facts.get("LiveNodes") or "{}"))
    if live < state.options.datanodes:
        raise NotYet(f"{live} of {state.options.datanodes} DataNodes are live")
    for daemon in state.daemons:
        if daemon.kind is DaemonKind.DATA_NODE and daemon.name in since:
            _check_data_node(state, daemon)
    if facts.get("Safemode"):
        raise NotYet("the NameNode is in safe mode")


def _check_data_node(state: ClusterState, daemon: MiniDaemon) -> None:
    facts = _bean(state, f"{daemon.name}.web", "Hadoop:service=DataNode,name=DataNodeInfo", daemon.name)
    actors = json.loads(facts.get("BPServiceActorInfo") or "[]")
    if not any(actor.get("ActorState") == "RUNNING" for actor in actors):
        raise NotYet(f"{daemon.name} has not registered")


def _check_yarn(state: ClusterState, since: Mapping[str, float]) -> None:
    found = _get(state, "rm.web", "/ws/v1/cluster/nodes?states=RUNNING", "the ResourceManager").get("nodes") or {}
    nodes = {node["id"]: node for node in found.get("node", [])}
    wanted = [daemon for daemon in state.daemons if daemon.kind is DaemonKind.NODE_MANAGER]
    missing = [daemon.name for daemon in wanted if not _is_running(state, daemon, nodes, since.get(daemon.name))]
    if missing:
        raise NotYet(
            f"{len(wanted) - len(missing)} of {len(wanted)} NodeManagers are running ({', '.join(missing)} not)"
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


_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
#: Below are ports of well-known services; above is Linux's default ephemeral range.
_LOWEST_PORT = 10240
_HIGHEST_PORT = 32767


def choose(names: Iterable[str]) -> dict[str, int]:
    """Return a free port for each name.

    None is in the kernel's ephemeral range, so that a killed daemon finds its own port free again. Another process may
    take one before it is used: the caller has to be ready to choose again.

    Raises:
        InfraError: too few are free.
    """
    candidates = list(range(_LOWEST_PORT, _first_automatic()))
    random.shuffle(candidates)
    free = (port for port in candidates if _is_free(port))
    try:
        return {name: next(free) for name in names}
    except StopIteration:
        raise InfraError(
            f"not enough free ports from {_LOWEST_PORT} to {_first_automatic() - 1} for a cluster"
        ) from None


def _first_automatic() -> int:
    try:
        first = int(_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return _HIGHEST_PORT + 1
    return first if first > _LOWEST_PORT + 1000 else _HIGHEST_PORT + 1


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
    return True
