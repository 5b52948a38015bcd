"""Tasks where constraints want them, with a ResourceManager that rejects what does not fit now.

That is its handler `placement-processor`. With `scheduler`: `test_queues_and_labels`; without: `test_cluster_capacity`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.change_detection import CLUSTER
from tests.mini_clusters import options
from tests.yarn.lab import YarnLab, one_user, until

if TYPE_CHECKING:
    from tests.mini_clusters import Clusters

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.on_change(*CLUSTER)]

_ATTRIBUTES = "yarn.nodemanager.node-attributes.provider"
_ATTRIBUTE = "yarn.nodemanager.node-attributes.provider.configured-node-attributes"
SETTINGS = {
    "yarn.resourcemanager.placement-constraints.handler": "placement-processor",
    _ATTRIBUTES: "config",
    f"nm1:{_ATTRIBUTE}": "disk,STRING,hdd",
    f"nm2:{_ATTRIBUTE}": "disk,STRING,ssd",
}
HOLDS = "import os, time; open(os.environ['OUT'] + '/' + os.environ['TASK_INDEX'], 'w'); time.sleep(3600)"
NM1, NM2 = "127.0.1.1", "127.0.1.2"


@pytest.fixture
def lab(clusters: Clusters) -> Iterator[YarnLab]:
    """A user of a cluster with two nodes of 4 GB, of which one has another disk."""
    cluster = clusters.with_options(options(SETTINGS, nodes=2))
    with one_user(lambda folder: YarnLab(folder, cluster)) as made:
        yield made


def test_constraints(lab: YarnLab) -> None:
    """By attributes and tags, joined, and for all of an application; roles that are requested otherwise continue."""
    roles = """
    [roles.db]
    yarn.placement = "nm.yarn.io/disk=ssd,tape"
    yarn.placement_tags = ["db", "store"]
    [roles.near]
    instances = 2
    yarn.placement = "in,node,db"
    [roles.far]
    instances = 2
    yarn.placement = "and(notin,node,store:notin,rack,all/others)"
    [roles.free]
    """
    by_role = lab.detach(lab.roles("", roles))
    of_all = """
    [roles.worker]
    yarn.placement = "cardinality,node,worker,0,1"
    instances = 2
    [roles.ps]
    yarn.placement_tags = ["a", "b"]
    """
    by_job = lab.detach(
        lab.job(f'command = "true"\n{of_all}', name="all.toml"),
        "--set",
        "scheduler.yarn.placement=nm.yarn.io/disk!=hdd",
    )
    assert [lab.wait(job)["state"] for job in (by_role, by_job)] == ["succeeded"] * 2
    hosts = {task: each["host"] for task, each in lab.tasks(by_role).items() if not task.startswith("free")}
    assert hosts == {"db:0": NM2, "near:0": NM2, "near:1": NM2, "far:0": NM1, "far:1": NM1}
    assert {task: each["host"] for task, each in lab.tasks(by_job).items()} == dict.fromkeys(
        ("worker:0", "worker:1", "ps:0"), NM2
    )


def test_a_rejected_request_waits(lab: YarnLab) -> None:
    """Until there is room, which may be never: the reason is shown all the while; a job that fits is not delayed."""
    text = '[roles.worker]\ninstances = 2\nspread = true\nmemory = "2500m"\n'
    holder = lab.detach(lab.roles(HOLDS, text))
    lab.wait_wrote("0"), lab.wait_wrote("1")
    assert {task["host"] for task in lab.tasks(holder).values()} == {NM1, NM2}
    waits = lab.detach(lab.job(f'command = "true"\n{text}', name="waits.toml"))
    never = "[roles.worker]\ninstances = 3\nspread = true\n"
    head = 'command = "true"\nallocation_timeout = "10s"\n'
    never_fits = lab.detach(lab.job(head + never, name="never.toml"))
    until(lambda: "no suitable node" in lab.status(waits)["waiting"], "it is said why it waits")
    assert lab.wait(never_fits)["exit_code"] == 3
    reason = lab.failure(never_fits)["reason"]
    assert re.search("worker has [12] of 3 containers", reason), reason
    assert "no suitable node for worker now (could not" in reason, reason
    assert lab.tony("kill", holder, "--now").returncode == 0
    assert lab.wait(waits)["state"] == "succeeded"
    assert {task["host"] for task in lab.tasks(waits).values()} == {NM1, NM2}
