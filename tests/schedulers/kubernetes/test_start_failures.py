"""A failure to start that lasts costs a pod its node, or the job its life."""

from __future__ import annotations

import asyncio

from tests.support.waiting import wait_until
from tony.core.events import Event, Unsatisfiable
from tony.schedulers.kubernetes.pod_table import PodStage, StartFailure, TaskPod
from tony.schedulers.kubernetes.start_failures import StartFailures

OF_NODE = StartFailure("no such device", 0.01, is_of_node=True)


class _Role:
    """Pods of one role, all on nodes."""

    def __init__(self, *names: str) -> None:
        self.pods = {name: TaskPod(name, "worker", 0, PodStage.GRANTED) for name in names}
        self.events: list[Event] = []
        self.killed: list[str] = []
        self.failures = StartFailures(self.pods, self.events.append, lambda name, _: self.killed.append(name))

    def note(self, failure: StartFailure | None, *names: str) -> None:
        for name in names:
            self.failures.note(self.pods[name], failure)


async def test_pods_leave_a_node_that_cannot_start_them() -> None:
    """As many as there are, if another pod of the role shows that the job is not the cause."""
    role = _Role(*"abcd")
    role.pods["d"].has_enlisted = True
    role.note(OF_NODE, "a", "b", "c")
    assert role.killed == []
    await wait_until(lambda: role.killed == ["a", "b", "c"])
    assert role.events == []


async def test_a_job_none_of_whose_pods_starts_fails() -> None:
    role = _Role(*"abc")
    role.note(OF_NODE, "a", "b", "c")
    await wait_until(lambda: role.events)
    assert (role.killed, role.events) == (["a", "b"], [Unsatisfiable(role="worker", reason="no such device")])


async def test_a_failure_that_passes_has_no_consequence() -> None:
    role = _Role("passes", "lasts")
    role.note(OF_NODE, "passes", "lasts")
    role.note(None, "passes")
    await wait_until(lambda: role.killed == ["lasts"])
    await asyncio.sleep(0)
    assert role.events == []
    assert role.pods["passes"].describe_start_failure() == ""
