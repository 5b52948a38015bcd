"""The command `hadoop` of a small cluster, which is `hdfs` as well: what programs and people need to try things out."""

from __future__ import annotations

import shlex
from pathlib import Path

from tony.mini.daemons import tool_command
from tony.mini.layout import Places

#: Word -> the class behind it, as in Hadoop's own script.
_CLASSES = {
    "fs": "org.apache.hadoop.fs.FsShell",
    "dfs": "org.apache.hadoop.fs.FsShell",
    "dfsadmin": "org.apache.hadoop.hdfs.tools.DFSAdmin",
    "jar": "org.apache.hadoop.util.RunJar",
    "version": "org.apache.hadoop.util.VersionInfo",
}


def script(java: Path, jars: Path, places: Places) -> str:
    """Its text. It speaks to the cluster of `places`, whatever HADOOP_CONF_DIR says."""
    *line, _ = tool_command(java, jars, places, "")
    cases = "\n".join(f'  {word}) shift; run {name} "$@" ;;' for word, name in _CLASSES.items())
    known = ", ".join(["classpath", *_CLASSES])
    return f"""#!/bin/sh
# A part of what Hadoop's own command can do.
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
  *) echo "$0: $1 is not known to this small cluster; it knows {known}, and classes" >&2; exit 1 ;;
esac
"""


def write(java: Path, jars: Path, places: Places) -> None:
    """Puts both names of it into the folder that comes first on the nodes' PATH.

    Raises:
        OSError: the file system says no.
    """
    for name in ("hadoop", "hdfs"):
        program = places.bin / name
        program.write_text(script(java, jars, places), encoding="utf-8")
        program.chmod(0o755)
