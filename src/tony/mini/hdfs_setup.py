"""The first steps in a new cluster: formats HDFS, creates home directories, assigns node labels."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from urllib.parse import quote, urlencode

from tony.errors import InfraError
from tony.mini.cluster_state import ClusterState
from tony.mini.daemon_commands import MiniDaemon, command
from tony.mini.daemon_http import send_request
from tony.mini.daemon_logs import log_tail
from tony.mini.layout import ClusterLayout

#: Timeout in seconds: the first request makes Java load many classes, while all other daemons do the same.
_TIMEOUT_SECONDS = 60.0


def format_name_node(state: ClusterState, places: ClusterLayout, variables: dict[str, str]) -> None:
    """Format the NameNode: create an empty file system.

    Raises:
        InfraError: Java or Hadoop failed; says how.
    """
    log = places.find_log("format")
    line = command(MiniDaemon("nn"), Path(state.java), Path(state.jars), places, "-format", "-nonInteractive")
    with open(log, "wb") as file:
        done = subprocess.run(
            line, env=variables, cwd=places.path, stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=False
        )
    if done.returncode != 0:
        raise InfraError("\n".join([f"formatting the NameNode failed; see {log}:", *log_tail(log)]))


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
    send_request(address, method, path, body, _TIMEOUT_SECONDS)
