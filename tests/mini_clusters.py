"""Real clusters for tests: one for the whole run, started when the first test asks for it, and one of other options.

A small process watches over them: whatever ends the run, be it SIGKILL, no daemon outlives it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import tony
from tony.errors import UserError
from tony.mini import processes
from tony.mini.cluster import MiniCluster
from tony.mini.cluster_state import ClusterState
from tony.mini.daemons import tool_command
from tony.mini.options import DEFAULT_HADOOP, HadoopProperty, Label, MiniOptions
from tony.mini.software import cache_folder, find_folder, find_java, find_maven
from tony.model.state_directory import Home

#: Two queues that may both grow to the whole cluster, and two simulated GPUs on nm1: jobs without GPUs are unaffected.
SHARED = {
    "yarn.scheduler.capacity.root.queues": "default,other",
    "yarn.scheduler.capacity.root.default.capacity": "50",
    "yarn.scheduler.capacity.root.default.user-limit-factor": "2",
    "yarn.scheduler.capacity.root.other.capacity": "50",
    "yarn.scheduler.capacity.root.other.maximum-capacity": "100",
    "yarn.scheduler.capacity.root.other.user-limit-factor": "2",
    "yarn.resource-types": "yarn.io/gpu",
    "nm1:yarn.nodemanager.resource-type.yarn.io/gpu": "2",
    "yarn.am.liveness-monitor.expiry-interval-ms": "45000",  # of a machine that has no time, an AM is slow, not dead
}
#: What tests reckon with, on every node.
SMALL_NODES = {
    "yarn.nodemanager.resource.memory-mb": "4096",
    "yarn.scheduler.maximum-allocation-mb": "4096",
    "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "200",  # containers come and go with these
}
#: Hadoop's own classes need no verification: that takes a sixth of the processor time in which a daemon starts.
UNVERIFIED = "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
#: Ends a cluster when its own standard input ends.
_WATCH = (
    "import os, sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path; sys.stdin.read(); "
    "from tony.mini.cluster import MiniCluster; from tony.model.state_directory import Home; "
    "import shutil; MiniCluster(Home(Path(sys.argv[2])), os.environ).stop(); shutil.rmtree(sys.argv[2])"
)


def options(
    settings: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    nodes: int = 3,
    datanodes: int = 1,
    path: str | None = None,
) -> MiniOptions:
    """What a cluster is to be: `{"dfs.replication": "1", "nm1:some.key": "value"}`, `{"gpu": "nm2,nm3"}`."""
    given = {**SMALL_NODES, **(settings or {})}
    return MiniOptions(
        nodes=nodes,
        datanodes=datanodes,
        settings=tuple(HadoopProperty.read(f"{key}={value}") for key, value in given.items()),
        labels=tuple(Label.read(f"{name}={members}") for name, members in (labels or {}).items()),
        path=path,
    )


def why_not() -> str | None:
    """Why no cluster can be started on this machine; None if one can."""
    try:
        find_java(os.environ, DEFAULT_HADOOP)
        if find_folder(cache_folder(os.environ), DEFAULT_HADOOP) is None:
            find_maven(os.environ)
    except UserError as error:
        return f"no real Hadoop here: {error}"
    return None


Maker = Callable[[Home], MiniCluster]


class QuickCluster(MiniCluster):
    """A small cluster whose daemons start with less work."""

    def __init__(self, home: Home) -> None:
        super().__init__(home, os.environ)

    def _variables(self, state: ClusterState) -> dict[str, str]:
        return {**super()._variables(state), "JAVA_TOOL_OPTIONS": UNVERIFIED}


class Running:
    """A cluster with the process that watches over it. Ended by `stop`, or by the end of this process."""

    def __init__(self, wanted: MiniOptions, make: Maker) -> None:
        """Starts it, in a home of its own with a short path."""
        self.options = wanted
        home = Path(tempfile.mkdtemp(prefix="tony-mini-"))
        self.cluster = make(Home(home))
        source = str(Path(tony.__file__).parents[1])
        self._watch = subprocess.Popen(
            [sys.executable, "-c", _WATCH, source, str(home)], stdin=subprocess.PIPE, start_new_session=True
        )
        try:
            self.cluster.start(wanted, print)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        self.cluster.stop()
        assert self._watch.stdin is not None
        self._watch.stdin.close()
        assert self._watch.wait(60) == 0

    def mended(self) -> MiniCluster:
        """The cluster, with the daemons back that an earlier test has killed."""
        state = self.cluster.state
        for daemon in state.daemons:
            if daemon.name not in state.find_running():
                self.cluster.restart(daemon.name)
        return self.cluster


class Clusters:
    """At most two at a time: the shared one, and the one that was asked for last with other options."""

    def __init__(self) -> None:
        self._shared: Running | None = None
        self._special: Running | None = None

    def shared(self) -> MiniCluster:
        if self._shared is None:
            self._shared = Running(options(SHARED), QuickCluster)
        return self._shared.mended()

    def with_options(self, wanted: MiniOptions, make: Maker = QuickCluster) -> MiniCluster:
        """One of these options, empty unless the test before asked for the same.

        Args:
            make: what knows how it is started.
        """
        if self._special is not None and self._special.options != wanted:
            self._special.stop()
            self._special = None
        if self._special is None:
            self._special = Running(wanted, make)
        return self._special.mended()

    def stop(self) -> None:
        for running in (self._shared, self._special):
            if running is not None:
                running.stop()
        self._shared = self._special = None


def run_tool(cluster: MiniCluster, main: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a Hadoop tool against the cluster, such as `org.apache.hadoop.fs.FsShell`."""
    state = cluster.state
    return subprocess.run(
        tool_command(Path(state.java), Path(state.jars), cluster.places, main, *arguments),
        env=processes.environment(state, cluster.places, os.environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=120.0,
        check=False,
    )
