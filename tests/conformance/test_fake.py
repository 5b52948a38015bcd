"""The fake scheduler keeps to the contract of container allocators, with every fault."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from tony.protocol.launch import AmCredentials, TaskPart
from tony.testing import allocator_bench, conformance, container_faults
from tony.testing.fake_scheduler import FakeAllocator
from tony.testing.sample_jobs import build_two_roles

FAULTS = (
    container_faults.SlowContainer,
    container_faults.RefusedContainer,
    container_faults.LostContainer,
    container_faults.ContainerExitsBeforeRegistering,
    container_faults.LostAnswer,
)


class FakeBench(allocator_bench.Bench):
    def __init__(self, ordered: Sequence[container_faults.Fault]) -> None:
        self.spec = build_two_roles()
        self.job_id = "fake"
        limits = {name: role.instances for name, role in self.spec.roles.items()}
        self.fake = FakeAllocator(faults=ordered, limits=limits)
        self.source = self.fake

    async def fetch_payload(self, container: str) -> tuple[TaskPart, AmCredentials]:
        held = self.fake.containers[container]
        assert held.task
        assert held.credentials
        return held.task, held.credentials

    async def is_alive(self, container: str) -> bool:
        return container in self.fake.containers

    async def end_executor(self, container: str) -> None:
        self.fake.end(container, "its executor ended with exit code 0")

    async def crash_executor(self, container: str) -> None:
        self.fake.end(container, "its executor was killed by SIGKILL")

    async def read_visible_data(self, container: str) -> str:
        return repr(self.fake.containers[container])

    async def list_leftovers(self) -> Sequence[str]:
        return list(self.fake.containers)


@asynccontextmanager
async def bench(ordered: Sequence[container_faults.Fault]) -> AsyncIterator[FakeBench]:
    yield FakeBench(ordered)


@pytest.mark.parametrize("clause", conformance.clauses(FAULTS))
def test_contract(clause: str) -> None:
    """Each clause holds; its docstring says which it is."""
    asyncio.run(conformance.check(clause, bench))
