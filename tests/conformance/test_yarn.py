"""YARN keeps to the contract of container allocators, on a fake cluster.

One fault is not provoked: an answer that is lost on the way is tried in `tests/hadoop/`. One clause does not hold: a
demand that can never be met waits, for a cluster may grow.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.schedulers.yarn.fake_cluster import FakeCluster, start_fake_cluster
from tests.support.hadoop.fake_resource_manager import YARN
from tests.support.hadoop.faults import Refuse
from tony.hadoop.ids import format_container, parse_container_id
from tony.protocol.launch import AmCredentials, TaskPart
from tony.schedulers.yarn.allocation import container_table, outstanding_requests
from tony.testing import allocator_bench, conformance, container_faults

NO = Refuse(class_name=f"{YARN}YarnException", message="no disk is left")
FAULTS = (
    container_faults.SlowContainer,
    container_faults.RefusedContainer,
    container_faults.LostContainer,
    container_faults.ContainerExitsBeforeRegistering,
)
#: YARN takes an ask for a thousand containers, and has it wait; what no node can hold is refused, see
#: `tests/schedulers/yarn/allocation/test_allocator.py`.
_NEVER_IMPOSSIBLE = "impossible_demand_is_refused"


class FakeBench(allocator_bench.Bench):
    """A fake cluster, looked at from outside."""

    def __init__(self, cluster: FakeCluster, wanted: Sequence[container_faults.Fault]) -> None:
        self.cluster = cluster
        self.source, self.spec, self.job_id = cluster.source, cluster.spec, cluster.job_id
        self._ends: list[tuple[int, str]] = []
        self._later: list[asyncio.TimerHandle] = []
        for fault in wanted:
            self._order(fault)

    def _order(self, fault: container_faults.Fault) -> None:
        manager = self.cluster.manager
        match fault:
            case container_faults.SlowContainer():
                manager.grants_by_hand = True
            case container_faults.RefusedContainer():
                for node in self.cluster.nodes:
                    node.server.order(NO, method="startContainers")
            case container_faults.LostContainer(delay=delay):
                self._end_first(-100, delay)
            case container_faults.ContainerExitsBeforeRegistering(exit_code=code):
                self._end_first(code, 0.0)

    def make_room(self) -> None:
        self.cluster.manager.grants_by_hand = False

    def _end_first(self, status: int, delay: float) -> None:
        """Ends the first container that runs, some time after it does."""

        def look() -> None:
            for node in self.cluster.nodes:
                for name in list(node.running):
                    self._later.append(loop.call_later(delay, self._end, name, status))
                    return
            self._later.append(loop.call_later(0.002, look))

        loop = asyncio.get_running_loop()
        loop.call_soon(look)

    def _end(self, container: str, status: int) -> None:
        for node in self.cluster.nodes:
            node.running.pop(container, None)
        self.cluster.manager.complete(parse_container_id(container), status)

    def cancel(self) -> None:
        for each in self._later:
            each.cancel()

    async def fetch_payload(self, container: str) -> tuple[TaskPart, AmCredentials]:
        await self.cluster.until(lambda: container in self.cluster.running())
        payload = self.cluster.payload_of(container)
        return payload.task, payload.credentials

    async def is_alive(self, container: str) -> bool:
        return container in self.cluster.running() and parse_container_id(container) in self.cluster.manager.live

    async def end_executor(self, container: str) -> None:
        self._end(container, 0)

    async def crash_executor(self, container: str) -> None:
        self._end(container, 137)

    async def read_visible_data(self, container: str) -> str:
        context = self.cluster.node(container).running[container]
        return str((context.environment, context.commands, context.local_resources))

    async def list_leftovers(self) -> Sequence[str]:
        return [format_container(each) for each in self.cluster.manager.live]


@asynccontextmanager
async def bench(folder: Path, wanted: Sequence[container_faults.Fault]) -> AsyncIterator[FakeBench]:
    async with start_fake_cluster(folder, opens=False) as cluster:
        made = FakeBench(cluster, wanted)
        yield made
        made.cancel()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short timeouts for what these tests provoke."""
    monkeypatch.setattr(outstanding_requests, "_PENDING_AFTER_SECONDS", 0.05)
    monkeypatch.setattr(container_table, "_CLOSE_SECONDS", 2.0)


@pytest.mark.parametrize("clause", [each for each in conformance.clauses(FAULTS) if each != _NEVER_IMPOSSIBLE])
def test_contract(clause: str, tmp_path: Path) -> None:
    """Each clause holds; its docstring says which it is."""
    asyncio.run(conformance.check(clause, partial(bench, tmp_path)))
