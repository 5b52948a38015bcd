"""Requests to the web servers of daemons: readiness, home directories, node labels, running applications."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from tony.errors import InfraError
from tony.linux.process import is_stopped
from tony.mini.cluster_state import ClusterState
from tony.mini.daemons import DaemonKind, MiniDaemon
from tony.units import format_first

#: Timeout in seconds of one response; a starting daemon may accept a connection without responding.
_TIMEOUT_SECONDS = 5.0
#: The first request makes Java load many classes, while all other daemons do the same.
_FIRST_TIMEOUT_SECONDS = 60.0

_ACTIVE_STATES = "NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING"
_DIAGNOSTICS = "its cluster was stopped (tony mini stop)"
#: Ids that are listed.
_MAX_SHOWN = 3
#: Seconds for all containers to end, and for followers to fetch the reason.
_END_SECONDS = 20.0
_FOLLOWER_SECONDS = 3.0
_POLL_SECONDS = 0.2


def send_request(
    address: str, method: str, path: str, body: str | None = None, timeout: float = _TIMEOUT_SECONDS
) -> bytes:
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


def _get_json(state: ClusterState, port: str, path: str, name: str) -> Any:
    try:
        return _get(state, port, path)
    except (InfraError, ValueError) as error:
        raise ClusterNotReadyError(f"{name} does not respond") from error


def _bean(state: ClusterState, port: str, bean: str, name: str) -> Any:
    beans = _get_json(state, port, f"/jmx?qry={quote(bean, safe='')}", name).get("beans")
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
    found = _get_json(state, "rm.web", "/ws/v1/cluster/nodes?states=RUNNING", "the ResourceManager").get("nodes") or {}
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


def wait_until_ready(
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


def initialize_hdfs(state: ClusterState, user: str) -> None:
    """Create the user's home directory and `/tmp`, and assign node labels.

    Raises:
        InfraError: a daemon refused.
    """
    _make_folder(state, f"/user/{user}", "755", user)
    _make_folder(state, "/tmp", "1777", user)
    if state.options.labels:
        _label_nodes(state)


def _make_folder(state: ClusterState, path: str, mode: str, user: str) -> None:
    query = urlencode({"op": "MKDIRS", "user.name": user})
    send_request(state.address("nn.web"), "PUT", f"/webhdfs/v1{quote(path)}?{query}", timeout=_FIRST_TIMEOUT_SECONDS)
    query = urlencode({"op": "SETPERMISSION", "permission": mode, "user.name": user})
    send_request(state.address("nn.web"), "PUT", f"/webhdfs/v1{quote(path)}?{query}", timeout=_FIRST_TIMEOUT_SECONDS)


def _label_nodes(state: ClusterState) -> None:
    address = state.address("rm.web")
    labels = [{"name": label.name, "exclusivity": True} for label in state.options.labels]
    send_request(
        address,
        "POST",
        "/ws/v1/cluster/add-node-labels",
        json.dumps({"nodeLabelInfo": labels}),
        timeout=_FIRST_TIMEOUT_SECONDS,
    )
    for label in state.options.labels:
        for node in label.nodes:
            name = quote(state.address(f"nm{node}.rpc"), safe=":")
            path = f"/ws/v1/cluster/nodes/{name}/replace-labels?labels={quote(label.name)}"
            send_request(address, "POST", path, timeout=_FIRST_TIMEOUT_SECONDS)


def kill_applications(state: ClusterState, notice: Callable[[str], None]) -> None:
    """Report and kill running applications; those that do not end in time end with the cluster.

    Does nothing if the ResourceManager is dead, stopped or unresponsive.
    """
    manager = state.find_running().get("rm")
    if manager is None or is_stopped(manager.pid):
        return
    with contextlib.suppress(InfraError, ValueError):
        names = _list_running(state)
        if not names:
            return
        verb = "application is" if len(names) == 1 else "applications are"
        notice(f"{len(names)} {verb} still running and will be killed: {format_first(names, _MAX_SHOWN)}")
        for name in names:
            _kill(state, name)
        if _wait_for(lambda: not _list_running(state) and not _count_containers(state), _END_SECONDS):
            time.sleep(_FOLLOWER_SECONDS)


def _list_running(state: ClusterState) -> list[str]:
    found = _get(state, "rm.web", f"/ws/v1/cluster/apps?states={_ACTIVE_STATES}").get("apps") or {}
    return sorted(each["id"] for each in found.get("app", []))


def _count_containers(state: ClusterState) -> int:
    """Return the number of containers left on running nodes."""
    found = _get(state, "rm.web", "/ws/v1/cluster/nodes?states=RUNNING").get("nodes") or {}
    return sum(each.get("numContainers", 0) for each in found.get("node", []))


def _kill(state: ClusterState, name: str) -> None:
    body = json.dumps({"state": "KILLED", "diagnostics": _DIAGNOSTICS})
    with contextlib.suppress(InfraError):  # it has just ended
        send_request(state.address("rm.web"), "PUT", f"/ws/v1/cluster/apps/{name}/state", body)


def _get(state: ClusterState, port: str, path: str) -> Any:
    return json.loads(send_request(state.address(port), "GET", path))


def _wait_for(done: Callable[[], bool], timeout: float) -> bool:
    deadline = time.monotonic() + timeout
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
