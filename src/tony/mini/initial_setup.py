"""Initial setup of an empty cluster: folders in HDFS, and node labels."""

from __future__ import annotations

import json
from urllib.parse import quote, urlencode

from tony.mini.cluster_state import ClusterState
from tony.mini.readiness import send

#: Timeout in seconds: the first request makes Java load many classes, while all other daemons do the same.
_TIMEOUT_SECONDS = 60.0


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
    _send(state.address("nn.web"), "PUT", f"/webhdfs/v1{quote(path)}?{query}")
    query = urlencode({"op": "SETPERMISSION", "permission": mode, "user.name": user})
    _send(state.address("nn.web"), "PUT", f"/webhdfs/v1{quote(path)}?{query}")


def _label_nodes(state: ClusterState) -> None:
    address = state.address("rm.web")
    labels = [{"name": label.name, "exclusivity": True} for label in state.options.labels]
    _send(address, "POST", "/ws/v1/cluster/add-node-labels", json.dumps({"nodeLabelInfo": labels}))
    for label in state.options.labels:
        for node in label.nodes:
            name = quote(state.address(f"nm{node}.rpc"), safe=":")
            _send(address, "POST", f"/ws/v1/cluster/nodes/{name}/replace-labels?labels={quote(label.name)}")


def _send(address: str, method: str, path: str, body: str | None = None) -> None:
    send(address, method, path, body, _TIMEOUT_SECONDS)
