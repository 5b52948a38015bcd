"""Files and folders that must exist before a cluster starts."""

from __future__ import annotations

import json
import os
import pwd
import re
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote, urlencode

from tony.errors import InfraError, UserError
from tony.mini import hadoop_command_script, site_xml
from tony.mini.cluster_state import ClusterState
from tony.mini.daemon_commands import MiniDaemon, command
from tony.mini.layout import Places
from tony.mini.processes import log_tail
from tony.mini.readiness import send

#: Folders without which NameNode and DataNode do not start; Hadoop's archives in Maven lack them.
_WEB = ("hdfs", "datanode", "secondary", "static")
#: Characters without a special meaning: Hadoop separates lists by commas, colons and blanks, and expands `$` and `%`.
_USABLE = re.compile(r"[A-Za-z0-9._/@+=~-]+")


def user_name() -> str:
    """Return the user's name as Java sees it: from the password file, whatever the environment says."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise UserError(f"Hadoop cannot run as user {os.geteuid()}: it has no entry in the password file.") from None


def check_path(path: Path) -> None:
    """Refuse a path that Hadoop cannot use.

    Raises:
        UserError: says why, and what to do.
    """
    if not _USABLE.fullmatch(str(path)):
        raise UserError(
            f"Hadoop cannot use the path {path}: it may contain only letters, digits and ._@+=~-. "
            "Set TONY_HOME to another folder."
        )


def write_files(state: ClusterState, places: Places) -> None:
    """Create all files and folders that daemons expect."""
    for folder in (places.logs, places.bin, places.tmp, *(places.web / "webapps" / name for name in _WEB)):
        folder.mkdir(parents=True, exist_ok=True)
    for daemon in state.daemons:
        places.own_conf(daemon.name).mkdir(parents=True, exist_ok=True)
    places.conf.mkdir(exist_ok=True)
    for name, text in site_xml.render(state, places, user_name()).items():
        (places.path / name).write_text(text, encoding="utf-8")
    places.hosts.write_text(site_xml.hosts(state, socket.gethostname()), encoding="utf-8")
    python = places.bin / "python3"
    python.unlink(missing_ok=True)
    python.symlink_to(_interpreter())
    hadoop_command_script.write(Path(state.java), Path(state.jars), places)


def format_name_node(state: ClusterState, places: Places, variables: dict[str, str]) -> None:
    """Format the NameNode: create an empty file system.

    Raises:
        InfraError: Java or Hadoop failed; says how.
    """
    log = places.log("format")
    line = command(MiniDaemon("nn"), Path(state.java), Path(state.jars), places, "-format", "-nonInteractive")
    with open(log, "wb") as file:
        done = subprocess.run(
            line, env=variables, cwd=places.path, stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=False
        )
    if done.returncode != 0:
        raise InfraError("\n".join([f"formatting the NameNode failed; see {log}:", *log_tail(log)]))


def _interpreter() -> str:
    """Return the base interpreter of a virtual environment, since nodes should not see the client's packages."""
    return os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)


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
