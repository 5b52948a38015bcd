"""A cluster that shares out: labelled nodes, queues that take back what is theirs, tasks kept apart, many of them."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.change_detection import CLUSTER
from tests.mini_clusters import options
from tests.yarn.lab import YarnLab, one_user, until
from tony.mini.cluster import MiniCluster
from tony.mini.daemon_requests import send_request

if TYPE_CHECKING:
    from tests.mini_clusters import Clusters

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.on_change(*CLUSTER)]

_ROOT = "yarn.scheduler.capacity.root"
_MONITOR = "yarn.resourcemanager.monitor.capacity.preemption"
SETTINGS = {
    f"{_ROOT}.queues": "default,other,small,dyn",
    f"{_ROOT}.default.capacity": "50",
    f"{_ROOT}.default.user-limit-factor": "2",
    f"{_ROOT}.default.accessible-node-labels.fast.capacity": "100",
    f"{_ROOT}.other.capacity": "50",
    f"{_ROOT}.other.maximum-capacity": "100",
    f"{_ROOT}.other.user-limit-factor": "2",
    f"{_ROOT}.other.accessible-node-labels": " ",  # none; nothing at all would mean those of its parent
    f"{_ROOT}.other.accessible-node-labels.fast.capacity": "0",
    f"{_ROOT}.small.capacity": "0",
    f"{_ROOT}.small.maximum-capacity": "10",
    f"{_ROOT}.small.maximum-am-resource-percent": "0.01",
    f"{_ROOT}.small.user-limit-factor": "-1",
    f"{_ROOT}.small.accessible-node-labels.fast.capacity": "0",
    f"{_ROOT}.dyn.capacity": "0",
    f"{_ROOT}.dyn.accessible-node-labels.fast.capacity": "0",
    f"{_ROOT}.dyn.auto-queue-creation-v2.enabled": "true",
    f"{_ROOT}.dyn.auto-queue-creation-v2.template.user-limit-factor": "-1",
    "yarn.scheduler.capacity.global-queue-max-application": "1000",  # else it follows the capacity, which is none
    "yarn.resourcemanager.placement-constraints.handler": "scheduler",
    "yarn.resourcemanager.scheduler.monitor.enable": "true",
    f"{_MONITOR}.monitoring_interval": "300",
    f"{_MONITOR}.max_wait_before_kill": "6000",  # the announcement comes with a heartbeat, up to a second later
    f"{_MONITOR}.total_preemption_per_round": "1.0",
    f"{_MONITOR}.natural_termination_factor": "1.0",
    f"{_MONITOR}.max_ignored_over_capacity": "0.0",
    "yarn.nodemanager.vmem-check-enabled": "true",
    "yarn.nodemanager.vmem-pmem-ratio": "30",
    "yarn.nodemanager.resource.cpu-vcores": "32",
    "nm3:yarn.nodemanager.resource.cpu-vcores": "40",
    "yarn.scheduler.maximum-allocation-vcores": "40",
    "yarn.am.liveness-monitor.expiry-interval-ms": "120000",
}
FAST = "127.0.1.3"
HOLDS = """
import os, time
session, task = os.environ["SESSION_ID"], os.environ["TASK_INDEX"]
open(f"{os.environ['OUT']}/{os.environ['JOB_NAME']}-{task}.{session}", "w")
while not os.path.exists(os.environ["OUT"] + "/gate"):
    time.sleep(0.05)
"""


@pytest.fixture
def sharing(clusters: Clusters) -> MiniCluster:
    """Two nodes of 4 GB for all and one for who asks for it; the queue `other` may not.

    The queue `small` may have a tenth of the 8 GB, and `dyn` gets queues below it when jobs come.
    """
    return clusters.with_options(options(SETTINGS, {"fast": "nm3"}))


@pytest.fixture
def lab(sharing: MiniCluster) -> Iterator[YarnLab]:
    with one_user(lambda folder: YarnLab(folder, sharing)) as made:
        yield made


def hosts(lab: YarnLab, job: str) -> dict[str, str]:
    return {task: each["host"] for task, each in lab.tasks(job).items()}


def test_nodes_have_their_labels(sharing: MiniCluster) -> None:
    """Those of `tony mini start --label`, also after a restart of the ResourceManager."""
    for restarted in (False, True):
        if restarted:
            sharing.restart("rm")
        answer = send_request(sharing.state.address("rm.web"), "GET", "/ws/v1/cluster/nodes")
        nodes = json.loads(answer)["nodes"]["node"]
        assert {FAST: ["fast"]} == {
            node["nodeHostName"]: labels for node in nodes if (labels := node.get("nodeLabels"))
        }


def test_labels(lab: YarnLab) -> None:
    """A role goes to the nodes of its label, and what has none elsewhere. That of the job holds for all of it."""
    mixed = '[roles.worker]\ninstances = 2\nnode_label = "fast"\n[roles.ps]\ninstances = 2\n'
    jobs = [
        lab.detach(lab.roles("", text), *words)
        for text, words in (
            (mixed, []),
            ("[roles.worker]\n", ["--set", "scheduler.yarn.am_node_label=fast"]),
            ("[roles.worker]\ninstances = 2\n", ["--set", "scheduler.yarn.node_label=fast"]),
        )
    ]
    assert [lab.wait(job)["state"] for job in jobs] == ["succeeded"] * 3
    by_role, of_master, of_all = ({task: host == FAST for task, host in hosts(lab, job).items()} for job in jobs)
    assert by_role == {"worker:0": True, "worker:1": True, "ps:0": False, "ps:1": False}
    assert (of_master, of_all) == ({"worker:0": False}, {"worker:0": True, "worker:1": True})
    masters = [lab.application(job)["amHostHttpAddress"].startswith(FAST) for job in jobs]
    assert masters == [False, True, True]


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        ('[roles.worker]\nnode_label = "fats"\n', [], ["roles.worker.node_label = fats", "the cluster has fast"]),
        (
            '[roles.worker]\nnode_label = "fast"\n',
            ["queue=other"],
            ["roles.worker.node_label", "the queue has no access to this node label; it can access none"],
        ),
        ("[roles.worker]\nvcores = 36\n", [], ["36 vcores", "the largest of 2 nodes without a label has 32 vcores"]),
        (
            '[roles.worker]\nmemory = "4g"\n',
            ["queue=small"],
            ["roles.worker.memory", "4g", "the queue root.small can use at most 819m of 8g in all, 10 %"],
        ),
        ("", ["queue=dyn.ann"], ["unknown queue", "the full path: root.dyn.ann."]),
    ],
    ids=["unknown-label", "not-this-queue", "too-large", "over-the-queue", "half-of-a-path"],
)
def test_refused(lab: YarnLab, text: str, arguments: list[str], said: list[str]) -> None:
    """Exit 2, with the key and what there is; no record here, no application there."""
    before = lab.applications()
    sets = [word for each in arguments for word in ("--set", f"scheduler.yarn.{each}")]
    done = lab.submit(lab.roles("", text), *sets)
    assert done.returncode == 2, done.stdout + done.stderr
    told = " ".join(done.stderr.split())
    assert not [each for each in said if each not in told], told
    assert (lab.jobs(), lab.applications()) == ([], before)


def test_as_much_as_the_queue_may_have(lab: YarnLab) -> None:
    """All of it but what the application master has; what its queue leaves to masters stops no single one."""
    done = lab.submit(lab.roles("", '[roles.worker]\nmemory = "256m"\n'), "--set", "scheduler.yarn.queue=small")
    assert done.returncode == 0, done.stdout + done.stderr


def test_queues_that_are_made(lab: YarnLab) -> None:
    """One is made when the job comes, where the cluster does so; elsewhere the ResourceManager says why not."""
    job = lab.roles("", "[roles.worker]\n")
    made, not_made = (lab.submit(job, "--set", f"scheduler.yarn.queue={name}") for name in ("root.dyn.ann", "root.x.y"))
    assert made.returncode == 0, made.stdout + made.stderr
    assert "There is no queue root.dyn.ann yet" in made.stderr
    assert lab.application(lab.only_job())["queue"] == "root.dyn.ann"
    assert not_made.returncode == 3, not_made.stdout + not_made.stderr
    assert "submitted by user" in not_made.stderr
    assert "to unknown queue: root.x.y" in not_made.stderr


def test_nodes_that_are_away(lab: YarnLab) -> None:
    """What only they could hold waits for them, which is said; what the ResourceManager does not let wait, too."""
    text = '[roles.worker]\nnode_label = "fast"\nvcores = {}\n'
    lab.cluster.kill("nm3", signal.SIGTERM)
    try:
        until(lambda: FAST not in _running(lab), "the ResourceManager knows that the node has ended")
        refused = lab.submit(lab.roles("", text.format(36)))
        assert refused.returncode == 2, refused.stdout + refused.stderr
        assert f"Submit again when one of these nodes is back: {FAST} (shutdown)" in " ".join(refused.stderr.split())
        done = lab.submit(lab.roles("", text.format(32)), "--detach")
        assert done.returncode == 0, done.stdout + done.stderr
        told = f"unavailable could run a task of worker (128m, 32 vcores): {FAST} (shutdown)."
        assert told in done.stderr
        job = lab.only_job()
        assert lab.wait(job, "queued", "pending", "submitted", "running")
    finally:
        lab.cluster.restart("nm3")
    assert lab.wait(job)["state"] == "succeeded"
    assert hosts(lab, job) == {"worker:0": FAST}


def _running(lab: YarnLab) -> set[str]:
    """The hosts of the nodes that run."""
    found = json.loads(send_request(lab.page("rm"), "GET", "/ws/v1/cluster/nodes"))["nodes"]
    return {node["nodeHostName"] for node in found["node"] if node["state"] == "RUNNING"}


def test_spread(lab: YarnLab) -> None:
    """No two tasks of the role on one host; more than there are hosts without a label wait in vain, which is said."""
    text = "[roles.worker]\ninstances = {}\nspread = true\n"
    too_many = lab.detach(lab.roles("", text.format(3), 'allocation_timeout = "10s"'))
    fits = lab.detach(lab.roles("", text.format(2)))
    assert lab.wait(fits)["state"] == "succeeded"
    assert sorted(hosts(lab, fits).values()) == ["127.0.1.1", "127.0.1.2"]
    assert lab.wait(too_many)["exit_code"] == 3
    failure = lab.failure(too_many)
    assert failure["cause"] == "allocation-timeout"
    assert "worker has 2 of 3 containers" in failure["reason"], failure["reason"]


def test_constraints(lab: YarnLab) -> None:
    """Near one role, away from another, at most so many on a node, and one of them for the whole application."""
    roles = """
    [roles.ps]
    [roles.near]
    yarn.placement = "in,node,ps"
    [roles.far]
    instances = 2
    yarn.placement = "notin,node,ps"
    yarn.placement_tags = ["far", "away"]
    [roles.few]
    instances = 4
    yarn.placement = "cardinality,node,few,0,1"
    """
    job = lab.detach(
        lab.roles("", roles), "--set", "scheduler.yarn.placement=or(notin,node,near:in,node,ps:in,rack,ps)"
    )
    assert lab.wait(job)["state"] == "succeeded"
    found = hosts(lab, job)
    assert found["near:0"] == found["ps:0"]
    assert {found["far:0"], found["far:1"]}.isdisjoint({found["ps:0"], FAST})
    assert sorted(found[f"few:{index}"] for index in range(4)) == ["127.0.1.1"] * 2 + ["127.0.1.2"] * 2


def test_killed_by_yarn_for_memory(lab: YarnLab) -> None:
    """It is a failure of the program as any for memory, with what it used and what it may have."""
    program = "import mmap, time; held = mmap.mmap(-1, 16 << 30, flags=mmap.MAP_PRIVATE | 0x4000); time.sleep(3600)"
    done = lab.submit(lab.roles(program))
    assert done.returncode == 1, done.stdout + done.stderr
    failure = lab.failure(lab.only_job())
    assert (failure["cause"], failure["task"]) == ("memory", "worker:0")
    said = r"worker:0 on 127\.0\.1\.[12]: YARN killed it .* virtual memory limit: (\S+) GB used, 3.8 GB allowed\."
    used = re.match(said, failure["reason"])
    assert used, failure["reason"]
    assert float(used[1]) > 16


def test_preemption(lab: YarnLab) -> None:
    """A queue takes back its share: said before, and as what it is; the next session waits for room."""
    text = '[roles.worker]\ninstances = 4\nmemory = "1500m"\n'
    borrower = lab.detach(lab.roles(HOLDS, text, "max_restarts = 3"), "--set", "scheduler.yarn.queue=other")
    for index in range(4):
        lab.wait_wrote(f"worker-{index}.1")
    owner = lab.job('command = "true"\n[roles.owner]\ninstances = 2\nmemory = "1500m"\n', name="owner.toml")
    assert lab.wait(lab.detach(owner))["state"] == "succeeded"
    (lab.out / "gate").touch()
    status = lab.wait(borrower)
    assert (status["state"], status["session"] > 1) == ("succeeded", True)
    taken = [each for each in lab.events_of(borrower, "container-ended") if each["blameless"]]
    assert taken
    assert all("preempted" in each["cause"] for each in taken)
    log = (lab.home / "jobs" / borrower / "am.log").read_text()
    announced = set(re.findall(r"worker:\d in (container_\w+): YARN will preempt it for another queue", log))
    assert announced & {each["container"] for each in taken}, log
    why = json.loads(lab.tony("why", borrower, "--json").stdout)
    assert (why["class"], why["retry"]) == ("preemption", True)
    again = lab.events_of(borrower, "session-opened")[1]["reason"]
    told_in_time = "YARN preempted it" in again
    assert told_in_time or "its executor received a stop signal that the AM did not send" in again, again
