"""Files and folders on this machine that must exist before a cluster starts, and its command `hadoop`."""

from __future__ import annotations

import os
import pwd
import re
import shlex
import socket
import sys
from pathlib import Path

from tony.errors import UserError
from tony.mini import site_xml
from tony.mini.cluster_state import ClusterState
from tony.mini.daemon_commands import tool_command
from tony.mini.layout import ClusterLayout

#: Folders without which NameNode and DataNode do not start; Hadoop's archives in Maven lack them.
_WEB = ("hdfs", "datanode", "secondary", "static")
#: Characters without a special meaning: Hadoop separates lists by commas, colons and blanks, and expands `$` and `%`.
_USABLE = re.compile(r"[A-Za-z0-9._/@+=~-]+")
#: Subcommand -> Java class, as in Hadoop's own script.
_CLASSES = {
    "fs": "org.apache.hadoop.fs.FsShell",
    "dfs": "org.apache.hadoop.fs.FsShell",
    "dfsadmin": "org.apache.hadoop.hdfs.tools.DFSAdmin",
    "jar": "org.apache.hadoop.util.RunJar",
    "version": "org.apache.hadoop.util.VersionInfo",
}


def user_name() -> str:
    """Return the user's name as Java sees it: from the password file, whatever the environment says."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise UserError(f"Hadoop cannot run as user {os.geteuid()}: it has no entry in the password file") from None


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


def write_files(state: ClusterState, places: ClusterLayout) -> None:
    """Create all files and folders that daemons expect."""
    for folder in (places.logs, places.bin, places.tmp, *(places.web / "webapps" / name for name in _WEB)):
        folder.mkdir(parents=True, exist_ok=True)
    for daemon in state.daemons:
        places.find_own_conf(daemon.name).mkdir(parents=True, exist_ok=True)
    places.conf.mkdir(exist_ok=True)
    for name, text in site_xml.render(state, places, user_name()).items():
        (places.path / name).write_text(text, encoding="utf-8")
    places.hosts.write_text(site_xml.hosts(state, socket.gethostname()), encoding="utf-8")
    python = places.bin / "python3"
    python.unlink(missing_ok=True)
    python.symlink_to(_interpreter())
    write_hadoop_commands(Path(state.java), Path(state.jars), places)


def _interpreter() -> str:
    """Return the base interpreter of a virtual environment, since nodes should not see the client's packages."""
    return os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)


def build_hadoop_script(java: Path, jars: Path, places: ClusterLayout) -> str:
    """Return the script of both commands. It uses the cluster of `places`, whatever HADOOP_CONF_DIR says."""
    *line, _ = tool_command(java, jars, places, "")
    cases = "\n".join(f'  {word}) shift; run {name} "$@" ;;' for word, name in _CLASSES.items())
    known = ", ".join(["classpath", *_CLASSES])
    return f"""#!/bin/sh
# A subset of Hadoop's own command.
conf={shlex.quote(str(places.conf))}
jars={shlex.quote(str(jars))}
run() {{ exec {shlex.join(line)} "$@"; }}
case "$1" in
  classpath)
    if [ "$2" = --glob ]; then
      printf %s "$conf"
      for jar in "$jars"/*.jar; do printf ':%s' "$jar"; done
      echo
    else
      echo "$conf:$jars/*"
    fi ;;
{cases}
  *.*) run "$@" ;;
  *) echo "$0: unknown subcommand $1; this small cluster has {known}, and class names" >&2; exit 1 ;;
esac
"""


def write_hadoop_commands(java: Path, jars: Path, places: ClusterLayout) -> None:
    """Write the commands `hadoop` and `hdfs` into the folder that comes first on the nodes' PATH.

    Raises:
        OSError: the file system refuses.
    """
    for name in ("hadoop", "hdfs"):
        program = places.bin / name
        program.write_text(build_hadoop_script(java, jars, places), encoding="utf-8")
        program.chmod(0o755)
