"""Nodes of a real Kubernetes lose their power or their network, and its API server is away, while jobs run.

Their waits are those of Kubernetes: 13 s until pods leave a lost node, some 20 s for that of an AM.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator

import pytest

from tests.e2e.lab import one_user, until
from tests.kubernetes.lab import AM_PART
from tests.kubernetes.nodes import NodesLab, run_nodes
from tony.kube.resources import PODS
from tony.mini.kubernetes.cluster import KubernetesCluster

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.long,
    pytest.mark.xdist_group("shared-kubernetes"),
    pytest.mark.timeout(900),
]
#: Seconds without API server, after which all controllers have to find out anew what is running.
AWAY_SECONDS = 65.0


@pytest.fixture(scope="module")
def nodes_cluster() -> Iterator[KubernetesCluster]:
    with run_nodes(3) as made:
        yield made


@pytest.fixture
def lab(nodes_cluster: KubernetesCluster) -> Iterator[NodesLab]:
    running = nodes_cluster.status()
    assert running
    dead = {each.name for each in running.daemons if each.state != "running"}
    for node in nodes_cluster.places.list_nodes():
        if dead & set(node.daemons):
            nodes_cluster.restart(node.name)
    with one_user(lambda folder: NodesLab(folder, nodes_cluster)) as made:
        yield made


def test_the_node_of_the_am_loses_its_power(lab: NodesLab) -> None:
    """Programs elsewhere live, and the next AM attempt continues their session."""
    job = lab.start("mini2", "mini", "mini3")
    lab.cluster.kill("mini2")
    until(lambda: lab.find_am_nodes(job) not in ([], ["mini2"]), "another AM has a node")
    until(lambda: len(lab.events_of(job, "attempt-started")) == 2, "the next AM has started")
    assert lab.end(job)["state"] == "succeeded"
    assert {"1"} == {session for _, session in lab.read_times()}
    lab.check_log(job)


def test_the_node_of_a_worker_is_cut_off(lab: NodesLab) -> None:
    """The next session has another node, and no program of the last one runs next to it."""
    job = lab.start("mini", "mini2", "mini3", head='orphan_grace = "5s"\nheartbeat_timeout = "3s"')
    lab.connect("mini2", "down")
    try:
        until(lambda: len([task for task, session in lab.read_times() if session == "2"]) == 2, "session 2 runs", 300)
        times = lab.read_times()
        (lost,) = [each for each in lab.events_of(job, "container-ended") if each["confirmation"] == "unconfirmed"]
    finally:
        lab.connect("mini2", "up")
    assert lost["cause"] == "its node mini2 does not respond"
    assert max(times["0", "1"] + times["1", "1"]) < min(times["0", "2"] + times["1", "2"])
    assert lab.end(job)["state"] == "succeeded"
    lab.check_log(job)


def test_the_node_of_the_am_is_cut_off(lab: NodesLab) -> None:
    """The AM that was cut off does nothing more when its node is back."""
    job = lab.start("mini2", "mini", "mini3")
    lab.connect("mini2", "down")
    try:
        until(lambda: len(lab.events_of(job, "attempt-started")) == 2, "the next AM has started")
    finally:
        lab.connect("mini2", "up")
    until(lambda: len(lab.list_pods(job, AM_PART)) == 1, "the pod of the first AM attempt is gone")
    assert lab.end(job)["state"] == "succeeded"
    assert {"1"} == {session for _, session in lab.read_times()}
    assert len(lab.events_of(job, "attempt-started")) == 2
    lab.check_log(job)


def test_the_api_server_is_killed_and_stays_away(lab: NodesLab) -> None:
    """The job is undisturbed, although etcd no longer has what the AM saw last: no pod ends or is created twice."""
    job = lab.start("mini", "mini2", "mini3")
    pods, version = lab.find_uids(job), lab.client.list(PODS).version
    lab.cluster.restart("kube-apiserver")
    lab.cluster.kill("kube-apiserver")
    time.sleep(AWAY_SECONDS)
    lab.compact_etcd()
    lab.cluster.restart("etcd")
    lab.cluster.restart("kube-apiserver")
    assert pods == until(lambda: lab.find_uids(job), "the API server answers")
    with contextlib.closing(lab.client.open_watch(PODS, labels={}, version=version, timeout=10)) as stream:
        assert json.loads(stream.read_line(1 << 20))["object"]["code"] == 410
    before = {key: len(times) for key, times in lab.read_times().items()}
    until(lambda: all(len(times) > before[key] for key, times in lab.read_times().items()), "the programs run on")
    assert {("0", "1"), ("1", "1")} == lab.read_times().keys()
    assert len(lab.events_of(job, "attempt-started")) == 1
    lab.delete_pod(lab.find_pod(job, "worker:1"))
    until(lambda: lab.status(job)["session"] == 2, "the AM sees that a pod was deleted")
    assert lab.end(job)["state"] == "succeeded"
    lab.check_log(job)
