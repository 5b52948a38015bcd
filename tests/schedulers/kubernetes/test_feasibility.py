"""Pods that nodes and quotas of a cluster cannot take are named with both numbers."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import pytest

from tony.kube.api_client import Object
from tony.schedulers.kubernetes.feasibility import PodDemand, compute_amounts, find_node_notices, find_quota_problems

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_NAMES = {"gpu": "nvidia.com/gpu", "nic": "a.com/nic", "pages": "hugepages-2Mi"}


def build_demand(
    count: int = 1,
    *,
    key: str = "roles.worker",
    selector: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    **requests: str,
) -> PodDemand:
    """Pods of one container."""
    amounts = {_NAMES.get(name, name): amount for name, amount in requests.items()}
    spec = {
        "containers": [{"resources": {"requests": amounts, "limits": limits or {}}}],
        "nodeSelector": selector or {},
    }
    return PodDemand(gpu_resource="nvidia.com/gpu", key=key, what="a task of worker", count=count, pod={"spec": spec})


def build_node(labels: Mapping[str, str] | None = None, taints: tuple[Object, ...] = (), **allocatable: str) -> Object:
    amounts = {_NAMES.get(name, name): amount for name, amount in allocatable.items()}
    return {
        "metadata": {"labels": labels or {}},
        "spec": {"taints": taints},
        "status": {"allocatable": {"cpu": "8", "memory": "16Gi", **amounts}},
    }


def build_quota(name: str = "team", **hard: str) -> Object:
    return {"metadata": {"name": name}, "spec": {"hard": {key.replace("_", "."): value for key, value in hard.items()}}}


def test_a_pod_requests_what_its_containers_do_at_one_time() -> None:
    def container(memory: str, **more: str) -> Object:
        return {"resources": {"requests": {"memory": memory}}, **more}

    init = [container("1"), container("2", restartPolicy="Always"), container("9"), container("3")]
    spec = {"initContainers": init, "containers": [container("4"), container("4")], "overhead": {"memory": "100"}}
    assert compute_amounts({"spec": spec}) == {"memory": Decimal(111)}
    spec["resources"] = {"requests": {"memory": "12"}}
    assert compute_amounts({"spec": spec}) == {"memory": Decimal(112)}
    assert compute_amounts({"spec": spec}, "limits") == {}
    assert compute_amounts({"spec": {"containers": [{}]}}) == {}


@pytest.mark.parametrize(
    ("demand", "nodes", "notice"),
    [
        (build_demand(memory="16Gi", cpu="7900m"), [build_node()], None),
        (
            build_demand(memory="20Gi"),
            [build_node(), build_node(memory="18Gi")],
            "roles.worker.memory: a task of worker requests 20 GiB of memory, and the largest node has 18 GiB",
        ),
        (
            build_demand(gpu="8"),
            [build_node(), build_node(gpu="4")],
            "roles.worker.gpus: a task of worker requests 8 of nvidia.com/gpu, and the largest node has 4",
        ),
        (
            build_demand(nic="1"),
            [build_node()],
            "roles.worker.resources.a.com/nic: a task of worker requests 1 of a.com/nic, and no node lists any",
        ),
        (
            build_demand(memory="16Gi", gpu="4"),
            [build_node(memory="8Gi", gpu="4"), build_node()],
            "No node has all that a task of worker requests: 16 GiB of memory, 4 of nvidia.com/gpu",
        ),
    ],
)
def test_pods_that_no_node_takes_are_named(demand: PodDemand, nodes: list[Object], notice: str | None) -> None:
    assert [*find_node_notices([demand], nodes)] == ([f"{notice}; it may wait for one that fits."] if notice else [])


def test_pods_that_no_node_accepts_are_named() -> None:
    """With the labels that they require, which may be of any length."""
    nodes = [build_node({"zone": "b", "pool": "ml"})]
    (notice,) = find_node_notices([build_demand(selector={"zone": "a", "pool": "ml"})], nodes)
    assert notice == (
        "No node of the cluster has the labels that a task of worker requires: zone=a, pool=ml "
        "(see node_selector, node_label); it may wait for one that fits."
    )
    long = {f"label-{number}": "\x1b[2J" * 9 for number in range(99)}
    (notice,) = find_node_notices([build_demand(key="scheduler.kubernetes", selector=long)], nodes)
    assert len(notice) < 1000
    assert notice.isprintable()
    assert "(see node_selector, am_template)" in notice


def test_a_label_of_a_topology_that_no_node_has_is_named() -> None:
    demand = build_demand(memory="15Gi")
    term = {"labelSelector": {}, "topologyKey": "zone"}
    demand.pod["spec"]["affinity"] = {"podAffinity": {REQUIRED: [term]}}
    (notice,) = find_node_notices([demand], [build_node()])
    assert notice == (
        "No node of the cluster that accepts a task of worker has the label zone (see topology); "
        "it may wait for one that fits."
    )
    assert not [*find_node_notices([demand], [build_node(), build_node({"zone": "a"})])]
    (notice,) = find_node_notices([demand], [build_node(), build_node({"zone": "a"}, memory="1Gi")])
    assert "the largest node has 1 GiB" in notice


def test_taints_keep_off_pods_that_do_not_tolerate_them() -> None:
    """Those of Kubernetes itself pass."""
    taint: Object = {"key": "gpu", "value": "only", "effect": "NoSchedule"}
    passing: Object = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
    tainted, demand = [build_node(taints=(taint, passing))], build_demand(memory="1")
    (notice,) = find_node_notices([demand], tainted)
    assert notice == (
        "Each node of the cluster has a taint that a task of worker does not tolerate: gpu=only:NoSchedule "
        "(see tolerations); it may wait for one that fits."
    )
    labelled = [build_node(), build_node({"pool": "ml"}, taints=({"key": "a", "effect": "NoExecute"},))]
    (notice,) = find_node_notices([build_demand(selector={"pool": "ml"})], labelled)
    assert notice.startswith("Each node of the cluster with pool=ml has a taint ")
    assert ": a:NoExecute (" in notice
    for toleration in (
        {"key": "gpu", "value": "only"},
        {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"operator": "Exists"},
        {"key": "gpu", "operator": "Gt", "value": "1"},
    ):
        demand.pod["spec"]["tolerations"] = [toleration]
        assert not [*find_node_notices([demand], tainted)]
    demand.pod["spec"]["tolerations"] = [
        {"key": "gpu", "value": "other"},
        {"operator": "Exists", "effect": "NoExecute"},
    ]
    assert [*find_node_notices([demand], tainted)]


def test_nothing_is_said_of_nodes_that_are_not_known() -> None:
    assert not [*find_node_notices([build_demand(memory="900Gi")], [])]


@pytest.mark.parametrize("counted", ["memory", "requests_memory"])
def test_a_pod_that_exceeds_a_quota_is_named(counted: str) -> None:
    (problem,) = find_quota_problems([build_demand(4, memory="2Gi")], [build_quota(**{counted: "1Gi"})])
    assert problem.key == "roles.worker.memory"
    assert problem.message == (
        "a task of worker requests 2 GiB of memory; quota team of the namespace allows 1 GiB in all "
        f"({counted.replace('_', '.')})"
    )


def test_amounts_that_look_the_same_are_told_exactly() -> None:
    (problem,) = find_quota_problems([build_demand(memory="2048Gi")], [build_quota(memory="2047Gi")])
    assert "requests 2,199,023,255,552 bytes of memory" in problem.message
    assert "allows 2,197,949,513,728 bytes in all" in problem.message


def test_a_gang_that_exceeds_a_quota_is_named() -> None:
    demands = [build_demand(4, memory="2Gi"), build_demand(key="scheduler.kubernetes", memory="512Mi")]
    (problem,) = find_quota_problems(demands, [build_quota(requests_memory="8Gi", pods="5")])
    assert problem.message == (
        "the job requests at least 8.5 GiB of memory at one time, with its AM; quota team of the namespace allows "
        "8 GiB in all (requests.memory)"
    )
    for allowed in ("4", "0"):
        (problem,) = find_quota_problems(demands, [build_quota(pods=allowed)])
        assert problem.message == (
            f"the job needs at least 5 pods at one time, with its AM; quota team of the namespace allows {allowed} in "
            "all (pods)"
        )


def test_a_limit_that_the_namespace_sets_is_not_called_a_request() -> None:
    """A LimitRange does, which a quota of limits needs: `vcores` is no limit."""
    demand = build_demand(4, cpu="1", limits={"cpu": "4"})
    (problem,) = find_quota_problems([demand], [build_quota(limits_cpu="2")])
    assert (problem.key, problem.message) == (
        "roles.worker.kubernetes.template",
        "a task of worker has a limit of 4 of cpu; quota team of the namespace allows 2 in all (limits.cpu)",
    )
    (problem,) = find_quota_problems([demand], [build_quota(limits_cpu="8")])
    assert problem.message.startswith("the job has limits of at least 16 of cpu at one time, with its AM; ")


def test_huge_pages_are_bytes() -> None:
    (problem,) = find_quota_problems([build_demand(pages="4Gi")], [build_quota(**{"requests_hugepages-2Mi": "1Gi"})])
    assert "requests 4 GiB of hugepages-2Mi; quota team of the namespace allows 1 GiB in all" in problem.message


def test_a_quota_of_some_pods_only_is_left_out() -> None:
    quota = build_quota(pods="0")
    quota["spec"]["scopes"] = ["BestEffort"]
    assert not [*find_quota_problems([build_demand()], [quota, build_quota(secrets="0", pods="1")])]
