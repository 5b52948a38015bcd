"""A real Kubernetes for tests: one for the whole run, started when the first test asks for it.

A small process watches over it: whatever ends the run, be it SIGKILL, no daemon outlives it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tony
from tony.kube.api_client import ApiClient
from tony.kube.kubeconfig import load_cluster_access
from tony.kube.resources import NODES
from tony.mini.kubernetes.cluster import KubernetesCluster
from tony.mini.kubernetes.layout import NODE_NAME
from tony.model.state_directory import Home
from tony.schedulers.kubernetes.access_rules import build_account_objects
from tony.schedulers.kubernetes.settings import KubernetesSettings

#: Stops a cluster when its own standard input ends.
_WATCH = (
    "import os, sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path; sys.stdin.read(); "
    "from tony.mini.kubernetes.cluster import KubernetesCluster; from tony.model.state_directory import Home; "
    "import shutil; KubernetesCluster(Home(Path(sys.argv[2])), os.environ).stop(); shutil.rmtree(sys.argv[2])"
)


class SharedKubernetes:
    """The cluster of a run, and the process that watches over it."""

    def __init__(self) -> None:
        """Create the object; starts nothing."""
        self._running: KubernetesCluster | None = None
        self._watch: subprocess.Popen[bytes] | None = None

    def mend(self) -> KubernetesCluster:
        """Return the cluster with all daemons running and a node that takes pods, whatever tests have done to them."""
        if self._running is not None and not self._is_ready(self._running):
            self.stop()
        if self._running is None:
            self._running = self._start()
        with contextlib.closing(ApiClient(load_cluster_access([self._running.kubeconfig]))) as client:
            client.patch(NODES, NODE_NAME, {"spec": {"unschedulable": None, "taints": None}})
        return self._running

    def stop(self) -> None:
        """Stop it, and remove its files. It may not have been started."""
        if self._running is not None:
            self._running.stop()
        if self._watch is not None:
            assert self._watch.stdin is not None
            self._watch.stdin.close()
            assert self._watch.wait(60) == 0
        self._running = self._watch = None

    def _is_ready(self, cluster: KubernetesCluster) -> bool:
        """Return True if all daemons run and are ready; they may be slow for a while."""
        deadline = time.monotonic() + 30
        while (status := cluster.status()) and all(daemon.state == "running" for daemon in status.daemons):
            if status.waiting_for is None or time.monotonic() > deadline:
                return status.waiting_for is None
            time.sleep(0.5)
        return False

    def _start(self) -> KubernetesCluster:
        home = Path(tempfile.mkdtemp(prefix="tony-kubernetes-"))
        cluster = KubernetesCluster(Home(home), os.environ)
        source = str(Path(tony.__file__).parents[1])
        self._watch = subprocess.Popen(
            [sys.executable, "-c", _WATCH, source, str(home)], stdin=subprocess.PIPE, start_new_session=True
        )
        try:
            cluster.start(build_account_objects(KubernetesSettings().service_account), print)
        except BaseException:
            cluster.stop()
            self.stop()
            raise
        return cluster
