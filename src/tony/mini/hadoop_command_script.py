"""The command `hadoop`, also as `hdfs`, of a small cluster, with the subcommands needed to try things out."""

from __future__ import annotations

import shlex
from pathlib import Path

from tony.mini.daemon_commands import tool_command
from tony.mini.layout import ClusterLayout

#: Subcommand -> Java class, as in Hadoop's own script.
_CLASSES = {
    "fs": "org.apache.hadoop.fs.FsShell",
    "dfs": "org.apache.hadoop.fs.FsShell",
    "dfsadmin": "org.apache.hadoop.hdfs.tools.DFSAdmin",
    "jar": "org.apache.hadoop.util.RunJar",
    "version": "org.apache.hadoop.util.VersionInfo",
}


def script(java: Path, jars: Path, places: ClusterLayout) -> str:
    """Return the script. It uses the cluster of `places`, whatever HADOOP_CONF_DIR says."""
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


def write(java: Path, jars: Path, places: ClusterLayout) -> None:
    """Write both commands into the folder that comes first on the nodes' PATH.

    Raises:
        OSError: the file system refuses.
    """
    for name in ("hadoop", "hdfs"):
        program = places.bin / name
        program.write_text(script(java, jars, places), encoding="utf-8")
        program.chmod(0o755)
