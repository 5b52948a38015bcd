"""The cluster ends pods: each time the job says why, and begins again."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.change_detection import KUBERNETES
from tests.e2e.lab import until
from tests.kubernetes.lab import KubernetesLab
from tony.kube.resources import NODES, PODS, ApiResource
from tony.mini.kubernetes.layout import NODE_NAME, PAUSE_IMAGE

pytestmark = [pytest.mark.on_change(*KUBERNETES), pytest.mark.slow, pytest.mark.e2e]

PRIORITY_CLASSES = ApiResource(
    group="scheduling.k8s.io", plural="priorityclasses", kind="PriorityClass", is_namespaced=False
)
#: What the node has two of.
SLOT = "tony.local/slot"
#: Writes down that it was asked to end.
PROGRAM = """
import os, signal, sys, time
session, index = os.environ["SESSION_ID"], os.environ["TASK_INDEX"]
def note(what):
    open(f"{os.environ['OUT']}/{what}-{session}-{index}", "w").close()
def end(*_):
    note("term")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
note("up")
time.sleep(3600)
"""
JOB = f"""
max_restarts = 0
backoff = "10ms"
[scheduler.kubernetes]
tolerations = ["lab:NoExecute"]
[roles.worker]
instances = 2
resources = {{ "{SLOT}" = 1 }}
kubernetes = {{ tolerations = ["other"] }}
"""


class Evictions:
    """A job of two tasks, whose pods are ended one after the other."""

    def __init__(self, lab: KubernetesLab) -> None:
        self.lab = lab
        self.job = lab.detach(lab.roles(PROGRAM, JOB))
        self.session = 1
        self.wait_session()

    def wait_session(self) -> None:
        """Wait until both programs run."""
        for index in range(2):
            self.lab.wait_wrote(f"up-{self.session}-{index}")

    def find_pod(self) -> str:
        """Return the pod of the first task."""
        return self.lab.find_pod(self.job, "worker:0")

    def expect(self, sentence: str, end: Callable[[str], object]) -> None:
        """End the pod of a task; the next session begins and counts against no limit, and the status says why."""
        end(self.find_pod())
        self.session += 1
        self.wait_session()
        status = self.lab.status(self.job)
        assert (status["session"], status["restarts"]["charged"]) == (self.session, 0)
        text = self.lab.tony("events", self.job).stdout
        assert re.search(sentence, text), text[-3000:]
        assert (self.lab.out / f"term-{self.session - 1}-0").exists(), "it was asked to end before it was killed"


@pytest.fixture
def node(lab: KubernetesLab) -> KubernetesLab:
    """The lab; its node has two slots, and two priority classes are there."""
    lab.add_resource(SLOT, 2)
    lab.client.create(PRIORITY_CLASSES, {"metadata": {"name": lab.namespace}, "value": 1000})
    return lab


def build_urgent_pod(lab: KubernetesLab) -> dict[str, object]:
    """Return a pod of a higher priority that wants a slot."""
    resources = {"requests": {SLOT: "1"}, "limits": {SLOT: "1"}}
    container = {"name": "c", "image": PAUSE_IMAGE, "imagePullPolicy": "Never", "resources": resources}
    spec = {"priorityClassName": lab.namespace, "containers": [container], "terminationGracePeriodSeconds": 0}
    return {"metadata": {"name": "urgent"}, "spec": spec}


def is_ending(lab: KubernetesLab, pod: str) -> bool:
    """Return True once a pod is deleted, even if it is gone by then."""
    found = lab.find(PODS, pod)
    return found is None or "deletionTimestamp" in found["metadata"]


def test_each_eviction_has_its_sentence(node: KubernetesLab) -> None:
    lab, job = node, Evictions(node)

    def evict(pod: str) -> None:
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": lab.namespace}}
        lab.send("POST", PODS.build_path(lab.namespace, pod, "eviction"), body)

    def taint(pod: str) -> None:
        lab.client.patch(NODES, NODE_NAME, {"spec": {"taints": [{"key": "lab", "effect": "NoExecute"}]}})
        until(lambda: is_ending(lab, pod), "the pod is evicted")
        lab.client.patch(NODES, NODE_NAME, {"spec": {"taints": None}})

    def preempt(pod: str) -> None:
        lab.client.create(PODS, build_urgent_pod(lab))
        until(lambda: lab.client.get(PODS, "urgent")["status"]["phase"] == "Running", "the urgent pod runs")
        lab.client.delete(PODS, "urgent", grace_seconds=0)

    job.expect("it was evicted: its node is being drained", evict)
    job.expect("its node has a taint that it does not tolerate", taint)
    job.expect("its pod was deleted", lab.delete_pod)
    job.expect("it was preempted for a pod of higher priority", preempt)
    assert lab.tony("kill", job.job).returncode == 0
    lab.wait(job.job, "killed")


#: Writes 8 MiB into a folder, and waits.
WRITE = """
import os, time
with open(os.path.join(os.environ["FOLDER"], "data"), "wb") as file:
    file.write(bytes(8 << 20))
time.sleep(3600)
"""
#: Name -> a role whose pods may store less; what its job fails with.
STORAGE = {
    "volume": (
        '[roles.worker]\nenv = { FOLDER = "/scratch" }\nkubernetes = { volumes = { "/scratch" = "emptyDir:4m" } }\n',
        'Usage of EmptyDir volume ".*" exceeds the limit "4194304"',
    ),
    "work": (
        '[roles.worker]\nenv = { FOLDER = "." }\nresources = { "ephemeral-storage" = 4194304 }\n',
        "Pod ephemeral local storage usage exceeds the total limit of containers 4194304",
    ),
}


@pytest.mark.long
def test_a_task_that_stores_too_much_is_to_blame(lab: KubernetesLab) -> None:
    """The kubelet measures volumes once a minute."""
    jobs = {name: lab.detach(lab.roles(WRITE, role)) for name, (role, _) in STORAGE.items()}
    for name, job in jobs.items():
        assert lab.wait(job)["state"] == "failed"
        assert re.search(f"its node evicted it: {STORAGE[name][1]}", lab.failure(job)["reason"]), lab.failure(job)
