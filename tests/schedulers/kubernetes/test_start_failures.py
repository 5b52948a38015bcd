"""A failure to start that lasts costs a pod its node, or the job its life."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.waiting import wait_until
from tony.core.events import Event, Unsatisfiable
from tony.schedulers.kubernetes.pod_table import PodStage, PodTable, StartFailure, TaskPod
from tony.schedulers.kubernetes.start_failures import StartFailures

FAILURE = StartFailure("no such device", 0.01, may_be_node_failure=True)
FAILED = Unsatisfiable(role="worker", reason="no such device")


class _Role:
    """Pods of one role, all on nodes. Those that are replaced have others, on the next nodes."""

    def __init__(self, *nodes: str, size: int | None = None) -> None:
        self.table = PodTable(demand={"worker": size or len(nodes)})
        self.events: list[Event] = []
        self.left: list[str] = []
        self.failures = StartFailures(self.table, self.events.append, self._replace)
        for node in nodes:
            self.add(node)

    def add(self, node: str) -> TaskPod:
        pod = TaskPod(f"pod-{len(self.table.pods)}", "worker", 0, PodStage.GRANTED, node)
        self.table.pods[pod.name] = pod
        return pod

    def fail(self) -> None:
        """Have all pods fail that have not started."""
        for pod in [pod for pod in self.table.pods.values() if not pod.has_enlisted]:
            self.failures.note(pod, FAILURE)

    def _replace(self, pod: TaskPod, cause: str) -> None:
        pod.stage = PodStage.ENDING
        self.left.append(pod.node)


async def test_all_pods_leave_a_node_that_cannot_start_them() -> None:
    """A gang may be on one node."""
    role = _Role(*"aaaaaaaa")
    role.fail()
    assert role.left == []
    await wait_until(lambda: role.left == [*"aaaaaaaa"])
    assert role.events == []


@pytest.mark.parametrize(("nodes", "left"), [("abc", ["a", "b"]), ("aaa", ["a", "a"])])
async def test_a_job_none_of_whose_pods_starts_fails(nodes: str, left: list[str]) -> None:
    """On three nodes, or three times for each task."""
    role = _Role(*nodes, size=1)
    role.fail()
    await wait_until(lambda: role.events)
    assert (role.left, role.events) == (left, [FAILED])


@pytest.mark.parametrize("stage", [PodStage.PENDING, PodStage.GRANTED])
async def test_a_job_is_not_the_cause_while_another_pod_may_start(stage: PodStage) -> None:
    role = _Role(*"abc")
    other = role.add("" if stage is PodStage.PENDING else "d")
    other.stage = stage
    for name in ("pod-0", "pod-1", "pod-2"):
        role.failures.note(role.table.pods[name], FAILURE)
    role.failures.note(other, StartFailure("the registry is slow", 900))
    await wait_until(lambda: role.left == [*"abc"])
    assert role.events == []


async def test_a_job_is_not_the_cause_if_some_pods_of_each_node_have_not_failed() -> None:
    role = _Role(*"aabbcc")
    for name in ("pod-0", "pod-2", "pod-4"):
        role.failures.note(role.table.pods[name], FAILURE)
    await wait_until(lambda: role.left == [*"abc"])
    assert role.events == []


async def test_a_role_that_has_started_fails_no_job() -> None:
    """Although none of its pods is there any longer."""
    role = _Role()
    role.failures.note_started("worker")
    for node in "abcdef":
        role.add(node)
    role.fail()
    await wait_until(lambda: role.left == [*"abcdef"])
    assert role.events == []


async def test_a_failure_that_passes_has_no_consequence() -> None:
    role = _Role("passes", "lasts")
    role.fail()
    passing = role.table.pods["pod-0"]
    role.failures.note(passing, None)
    await wait_until(lambda: role.left == ["lasts"])
    await asyncio.sleep(0)
    assert role.events == []
    assert passing.describe_start_failure() == ""
