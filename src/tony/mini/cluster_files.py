"""Files and folders of a small cluster that must exist before it starts: configuration, and its command `hadoop`."""

from __future__ import annotations

import os
import pwd
import re
import shlex
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

from tony.errors import UserError
from tony.mini import PROPERTY
from tony.mini.cluster_state import ClusterState
from tony.mini.daemons import HOST, MARKER, DaemonKind, MiniDaemon, tool_command
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

Properties = dict[str, str]

_YARN = "org.apache.hadoop.yarn"
_LOGGING = """\
log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
"""
#: Prefix of a key -> its file; the first match counts. Other keys go to core-site.xml.
_FILES = (
    ("yarn.scheduler.capacity.", "capacity-scheduler.xml"),
    ("yarn.resource-types", "resource-types.xml"),
    ("yarn.nodemanager.resource-type.", "node-resources.xml"),
    ("yarn.", "yarn-site.xml"),
    ("mapreduce.", "mapred-site.xml"),
    ("dfs.", "hdfs-site.xml"),
)
_CORE = "core-site.xml"


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
    for name, text in render(state, places, user_name()).items():
        (places.path / name).write_text(text, encoding="utf-8")
    places.hosts.write_text(hosts(state, socket.gethostname()), encoding="utf-8")
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


def file_of(key: str) -> str:
    """Return the file in which Hadoop looks for a property."""
    return next((file for beginning, file in _FILES if key.startswith(beginning)), _CORE)


def render(state: ClusterState, places: ClusterLayout, user: str) -> dict[str, str]:
    """Return every configuration file, as relative path -> text.

    Args:
        user: user of Hadoop's web pages without login.
    """
    files = {
        _CORE: _core(state, places, user),
        "hdfs-site.xml": _hdfs(state, places),
        "yarn-site.xml": _yarn(state, places),
        "capacity-scheduler.xml": _capacity(),
        "mapred-site.xml": {"mapreduce.framework.name": "yarn"},
        "resource-types.xml": {},
        "node-resources.xml": {},
    }
    _overrule(files, state, None)
    _add_labels(files["capacity-scheduler.xml"], state)
    texts = {f"conf/{name}": to_xml(properties) for name, properties in files.items()}
    for daemon in state.daemons:
        texts |= _render_daemon(daemon, files, state, places)
    return {**texts, "conf/log4j.properties": _LOGGING}


def to_xml(properties: Mapping[str, str]) -> str:
    """Return the XML text of a configuration file."""
    lines = [
        f"  <property><name>{escape(key)}</name><value>{escape(value)}</value></property>\n"
        for key, value in properties.items()
    ]
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<configuration>\n{"".join(lines)}</configuration>\n'


def hosts(state: ClusterState, hostname: str) -> str:
    """Return host names for Java, so that it does not query DNS for them."""
    nodes = [daemon.host for daemon in state.daemons if daemon.kind is DaemonKind.NODE_MANAGER]
    return "".join([f"{HOST} localhost\n{HOST} {hostname}\n", *(f"{node} {node}\n" for node in nodes)])


def _overrule(files: dict[str, Properties], state: ClusterState, daemon: str | None) -> None:
    for setting in state.options.settings:
        if setting.daemon == daemon:
            files[file_of(setting.key)][setting.key] = setting.value


def _render_daemon(
    daemon: MiniDaemon, files: Mapping[str, Properties], state: ClusterState, places: ClusterLayout
) -> dict[str, str]:
    """Return the files in which one of several daemons differs from the others."""
    own = {name: dict(properties) for name, properties in files.items()}
    if daemon.kind is DaemonKind.NODE_MANAGER:
        own["yarn-site.xml"] = _node_manager(daemon, state, places) | own["yarn-site.xml"]
    elif daemon.kind is DaemonKind.DATA_NODE:
        own["hdfs-site.xml"] = _data_node(daemon, state, places) | own["hdfs-site.xml"]
    _overrule(own, state, daemon.name)
    return {f"{daemon.name}/conf/{name}": to_xml(own[name]) for name in own if own[name] != files[name]}


def _core(state: ClusterState, places: ClusterLayout, user: str) -> Properties:
    return {
        "fs.defaultFS": f"hdfs://{state.address('nn.rpc')}",
        "hadoop.tmp.dir": str(places.tmp),
        "hadoop.http.staticuser.user": user,
        "ipc.client.connect.max.retries": "10",
        PROPERTY: "true",
    }


def _hdfs(state: ClusterState, places: ClusterLayout) -> Properties:
    return {
        "dfs.replication": str(min(state.options.datanodes, 3)),
        "dfs.namenode.name.dir": (places.find_data_folder("nn") / "name").as_uri(),
        "dfs.namenode.rpc-address": state.address("nn.rpc"),
        "dfs.namenode.http-address": state.address("nn.web"),
        "dfs.namenode.safemode.extension": "0",
        "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        "dfs.namenode.fs-limits.min-block-size": "1024",
        "dfs.namenode.resource.du.reserved": "0",
        "dfs.datanode.du.reserved": "0",
        "dfs.namenode.heartbeat.recheck-interval": "5000",
        "dfs.heartbeat.interval": "1",
        "dfs.client.block.write.replace-datanode-on-failure.policy": "NEVER",
    }


def _data_node(daemon: MiniDaemon, state: ClusterState, places: ClusterLayout) -> Properties:
    return {
        # A DataNode that writes for WebHDFS checks whether the file is complete, and waits this long (400 ms) before it
        # checks again. Here the first check nearly always fails, so every close of a file would take half a second.
        "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "20",
        "dfs.datanode.hostname": daemon.host,
        "dfs.datanode.address": state.address(f"{daemon.name}.data"),
        "dfs.datanode.ipc.address": state.address(f"{daemon.name}.ipc"),
        "dfs.datanode.http.address": state.address(f"{daemon.name}.web"),
        "dfs.datanode.data.dir": (places.find_data_folder(daemon.name) / "data").as_uri(),
    }


def _yarn(state: ClusterState, places: ClusterLayout) -> Properties:
    store = f"{_YARN}.server.resourcemanager.recovery.FileSystemRMStateStore"
    scheduler = f"{_YARN}.server.resourcemanager.scheduler.capacity.CapacityScheduler"
    properties = {
        "yarn.resourcemanager.hostname": HOST,
        "yarn.resourcemanager.address": state.address("rm.client"),
        "yarn.resourcemanager.scheduler.address": state.address("rm.scheduler"),
        "yarn.resourcemanager.resource-tracker.address": state.address("rm.tracker"),
        "yarn.resourcemanager.admin.address": state.address("rm.admin"),
        "yarn.resourcemanager.webapp.address": state.address("rm.web"),
        # A restarted ResourceManager recovers its applications.
        "yarn.resourcemanager.recovery.enabled": "true",
        "yarn.resourcemanager.work-preserving-recovery.enabled": "true",
        "yarn.resourcemanager.work-preserving-recovery.scheduling-wait-ms": "1000",
        "yarn.resourcemanager.store.class": store,
        "yarn.resourcemanager.fs.state-store.uri": (places.find_data_folder("rm") / "store").as_uri(),
        "yarn.resourcemanager.connect.retry-interval.ms": "1000",
        "yarn.resourcemanager.am.max-attempts": "3",
        "yarn.resourcemanager.scheduler.class": scheduler,
        # Dead daemons expire after seconds, not after the default of 10 minutes.
        "yarn.nm.liveness-monitor.expiry-interval-ms": "20000",
        "yarn.am.liveness-monitor.expiry-interval-ms": "20000",
        "yarn.scheduler.minimum-allocation-mb": "64",
        "yarn.scheduler.maximum-allocation-mb": "8192",
        "yarn.scheduler.maximum-allocation-vcores": "8",
        "yarn.nodemanager.resource.memory-mb": "8192",  # Hadoop's default: three workers of 4 GB fit on three nodes
        "yarn.nodemanager.resource.cpu-vcores": "8",
        "yarn.nodemanager.pmem-check-enabled": "true",
        # Else the check above does nothing: the node relies on cgroups that it does not use.
        "yarn.nodemanager.resource.memory.enforced": "false",
        "yarn.nodemanager.vmem-check-enabled": "false",
        # At 90 % of a full disk a node would turn unhealthy, and applications would wait forever.
        "yarn.nodemanager.disk-health-checker.enable": "false",
        "yarn.nodemanager.recovery.enabled": "true",
        "yarn.nodemanager.sleep-delay-before-sigkill.ms": "250",
        # Else the PATH of containers is bash's built-in one, whatever that of their NodeManager is.
        "yarn.nodemanager.admin-env.PATH": state.path,
        f"yarn.nodemanager.admin-env.{MARKER}": str(places.path),
        "yarn.log-aggregation-enable": "true",
        "yarn.nodemanager.remote-app-log-dir": "/app-logs",
        "yarn.application.classpath": f"{places.conf},{state.jars}/*",
        "yarn.timeline-service.enabled": "false",
    }
    if state.options.labels:
        properties["yarn.node-labels.enabled"] = "true"
        properties["yarn.node-labels.fs-store.root-dir"] = (places.find_data_folder("rm") / "labels").as_uri()
    return properties


def _node_manager(daemon: MiniDaemon, state: ClusterState, places: ClusterLayout) -> Properties:
    folder = places.find_data_folder(daemon.name)
    return {
        "yarn.nodemanager.hostname": daemon.host,
        "yarn.nodemanager.address": state.address(f"{daemon.name}.rpc"),
        "yarn.nodemanager.localizer.address": state.address(f"{daemon.name}.localizer"),
        "yarn.nodemanager.collector-service.address": state.address(f"{daemon.name}.collector"),
        "yarn.nodemanager.webapp.address": state.address(f"{daemon.name}.web"),
        "yarn.nodemanager.local-dirs": str(folder / "local"),
        "yarn.nodemanager.log-dirs": str(folder / "logs"),
        "yarn.nodemanager.recovery.dir": str(folder / "recovery"),
    }


def _capacity() -> Properties:
    key = "yarn.scheduler.capacity"
    return {
        f"{key}.root.queues": "default",
        f"{key}.root.default.capacity": "100",
        f"{key}.root.default.maximum-capacity": "100",
        f"{key}.maximum-applications": "10000",
        f"{key}.maximum-am-resource-percent": "1.0",  # the default allows AMs a tenth of the cluster
        f"{key}.resource-calculator": f"{_YARN}.util.resource.DominantResourceCalculator",
    }


def _add_labels(capacity: Properties, state: ClusterState) -> None:
    """Give every queue below the root the same share of labelled nodes as of the others."""
    root = "yarn.scheduler.capacity.root"
    for label in state.options.labels:
        capacity.setdefault(f"{root}.accessible-node-labels", "*")
        capacity.setdefault(f"{root}.accessible-node-labels.{label.name}.capacity", "100")
        for queue in filter(None, map(str.strip, capacity[f"{root}.queues"].split(","))):
            share = capacity.get(f"{root}.{queue}.capacity", "0")
            capacity.setdefault(f"{root}.{queue}.accessible-node-labels", "*")
            capacity.setdefault(f"{root}.{queue}.accessible-node-labels.{label.name}.capacity", share)
