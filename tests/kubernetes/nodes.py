"""A cluster of several nodes, which lose their power or their network, and a user of it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.e2e.lab import until
from tests.kubernetes.lab import AM_PART, KubernetesLab
from tests.kubernetes_build import wait_for_software
from tony.kube.errors import KubeError
from tony.kube.resources import NODES
from tony.linux.process import name, with_marker
from tony.mini.kubernetes.cluster import KubernetesCluster
from tony.model.state_directory import Home
from tony.schedulers.kubernetes.access_rules import build_account_objects
from tony.schedulers.kubernetes.settings import KubernetesSettings

#: Writes its session and its node to a file as long as it runs; ends when there is a file `end`.
PROGRAM = """
import os, time
out, me = os.environ["OUT"], f"{os.environ['TASK_INDEX']}.{os.environ['SESSION_ID']}"
print("session", os.environ["SESSION_ID"], "on", os.environ["TONY_NODE_NAME"], flush=True)
while not os.path.exists(f"{out}/end"):
    with open(f"{out}/{me}.{os.environ['TONY_NODE_NAME']}", "a") as file:
        file.write(f"{time.time()}\\n")
    time.sleep(0.1)
"""
#: Requests to the JSON gateway of etcd.
_COMPACT = """
import json, urllib.request
def send(path, **body):
    url = f"http://127.0.0.1:2379/v3/kv/{path}"
    return json.load(urllib.request.urlopen(url, json.dumps(body).encode()))
revision = send("range", key="AA==")["header"]["revision"]
send("compaction", revision=revision, physical=True)
"""


class NodesLab(KubernetesLab):
    """A user of a cluster of three nodes."""

    def status(self, job: str) -> dict[str, Any]:
        """Ask until there is an answer; pids are those in the pods."""
        return dict(until(lambda: self._ask(job), f"the status of {job} is known"))

    def _ask(self, job: str) -> dict[str, Any]:
        done = self.tony("status", job, "--json")
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def set_schedulable(self, *names: str) -> None:
        """Let pods be bound to these nodes only."""
        for node in self.cluster.places.list_nodes():
            spec = {"unschedulable": None if node.name in names else True}
            self.client.patch(NODES, node.name, {"spec": spec})

    def start(self, am_node: str, *task_nodes: str, head: str = "") -> str:
        """Start a job with its AM on one node and one task on each of the others, and return its id once they run."""
        self.set_schedulable(am_node)
        role = f"[roles.worker]\ninstances = {len(task_nodes)}\nspread = true\n"
        job = self.detach(self.roles(PROGRAM, role, head))
        until(lambda: self.find_am_nodes(job), "the AM has a node")
        self.set_schedulable(*task_nodes)
        until(lambda: len(list(self.out.iterdir())) >= len(task_nodes), "all programs run")
        self.set_schedulable(*(node.name for node in self.cluster.places.list_nodes()))
        return job

    def connect(self, node: str, state: str) -> None:
        """Connect a node (`up`), or cut it off (`down`)."""
        self._run_on_first_node("ip", "link", "set", node, state)

    def compact_etcd(self) -> None:
        """Have etcd forget all versions of objects but the current ones."""
        self._run_on_first_node(sys.executable, "-c", _COMPACT)

    def _run_on_first_node(self, *command: str) -> None:
        """Run a command in the network of the first node."""
        (etcd,) = [pid for pid in with_marker(self.cluster.places.marker) if name(pid) == "etcd"]
        subprocess.run(["nsenter", f"--target={etcd}", "--net", *command], check=True, timeout=60)

    def read_times(self) -> dict[tuple[str, str], list[float]]:
        """Task and session -> when its program was running, by this machine's clock."""
        found: dict[tuple[str, str], list[float]] = {}
        for path in self.out.glob("*.*.*"):
            task, session, _ = path.name.split(".")
            found.setdefault((task, session), []).extend(map(float, path.read_text().splitlines()))
        return found

    def find_am_nodes(self, job: str) -> list[str]:
        """The nodes of the pods of AMs that are not being deleted."""
        pods = self.list_pods(job, AM_PART).values()
        return [
            pod["spec"]["nodeName"]
            for pod in pods
            if pod["spec"].get("nodeName") and not pod["metadata"].get("deletionTimestamp")
        ]

    def find_uids(self, job: str) -> dict[str, str]:
        """Pod of a task -> its uid; nothing while the API server is away."""
        try:
            return {pod: each["metadata"]["uid"] for pod, each in self.list_pods(job).items()}
        except KubeError:
            return {}

    def check_log(self, job: str) -> None:
        """Assert that the log has no gap and leads to the result."""
        events = self.events(job)
        assert [each["seq"] for each in events] == list(range(1, len(events) + 1))
        replayed = self.tony("replay", job)
        assert replayed.returncode == 0, replayed.stdout + replayed.stderr

    def end(self, job: str) -> dict[str, object]:
        """Let all programs succeed; return the status of the job."""
        (self.out / "end").touch()
        return self.wait(job)


@contextlib.contextmanager
def run_nodes(count: int) -> Iterator[KubernetesCluster]:
    """Run a cluster of this many nodes."""
    wait_for_software(os.environ)
    with tempfile.TemporaryDirectory(prefix="tony-kubernetes-", dir="/tmp") as folder:
        cluster = KubernetesCluster(Home(Path(folder, "home")), os.environ)
        try:
            cluster.start(build_account_objects(KubernetesSettings().service_account), print, count)
            yield cluster
        finally:
            cluster.stop()
