"""Kill running applications before a cluster is stopped, so that their followers learn why they ended."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from typing import Any

from tony.errors import InfraError
from tony.linux.process import is_stopped
from tony.mini.cluster_state import ClusterState
from tony.mini.daemon_http import send_request
from tony.units import format_first

_ACTIVE_STATES = "NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING"
_DIAGNOSTICS = "its cluster was stopped (tony mini stop)"
#: Ids that are listed.
_MAX_SHOWN = 3
#: Seconds for a response of the ResourceManager, for all containers to end, and for followers to fetch the reason.
_TIMEOUT_SECONDS = 5.0
_END_SECONDS = 20.0
_FOLLOWER_SECONDS = 3.0
_POLL_SECONDS = 0.2


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
        if _wait(lambda: not _list_running(state) and not _containers(state), _END_SECONDS):
            time.sleep(_FOLLOWER_SECONDS)


def _list_running(state: ClusterState) -> list[str]:
    found = _get(state, f"/ws/v1/cluster/apps?states={_ACTIVE_STATES}").get("apps") or {}
    return sorted(each["id"] for each in found.get("app", []))


def _containers(state: ClusterState) -> int:
    """Return the number of containers left on running nodes."""
    found = _get(state, "/ws/v1/cluster/nodes?states=RUNNING").get("nodes") or {}
    return sum(each.get("numContainers", 0) for each in found.get("node", []))


def _kill(state: ClusterState, name: str) -> None:
    body = json.dumps({"state": "KILLED", "diagnostics": _DIAGNOSTICS})
    with contextlib.suppress(InfraError):  # it has just ended
        send_request(state.address("rm.web"), "PUT", f"/ws/v1/cluster/apps/{name}/state", body, _TIMEOUT_SECONDS)


def _get(state: ClusterState, path: str) -> Any:
    return json.loads(send_request(state.address("rm.web"), "GET", path, timeout=_TIMEOUT_SECONDS))


def _wait(done: Callable[[], bool], timeout: float) -> bool:
    deadline = time.monotonic() + timeout
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
