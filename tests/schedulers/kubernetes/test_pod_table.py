"""How many pods a role is missing."""

from __future__ import annotations

from tony.schedulers.kubernetes.pod_table import PodStage, PodTable, TaskPod


def test_a_pod_that_leaves_its_node_is_counted_until_it_has_ended() -> None:
    """Unless the core no longer wants it; one that the core has released is not counted."""
    pods = {name: TaskPod(name, "worker", 0, PodStage.ENDING) for name in ("leaves", "released")}
    table = PodTable(pods=pods, demand={"worker": 2})
    pods["leaves"].is_leaving_node = True
    assert table.count_missing() == {"worker": 1}
    assert table.release("leaves") is pods["leaves"]
    assert table.count_missing() == {"worker": 2}
