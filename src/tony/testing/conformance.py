"""Conformance checks of container allocators, fake or real: one for each clause of `schedulers/allocator_interface.py`.

The test of a scheduler supplies a *bench* (`allocator_bench.Bench`), which sets up an allocator with the job
`build_two_roles` (three workers, two ps) and inspects it from outside. Then:

    for clause in clauses(faults_that_can_be_provoked):
        asyncio.run(check(clause, bench))
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from tony.core.events import ContainerEnded, Event, Granted, Queued, Unsatisfiable
from tony.errors import SchedulerError
from tony.model.ids import TaskId
from tony.protocol.launch import AmCredentials
from tony.schedulers.allocator_interface import KnownContainer
from tony.testing import allocator_bench
from tony.testing.allocator_bench import BenchDriver, MakeBench
from tony.testing.container_faults import (
    ContainerExitsBeforeRegistering,
    Fault,
    LostAnswer,
    LostContainer,
    RefusedContainer,
    SilentExecutor,
    SlowContainer,
)
from tony.testing.sample_jobs import build_credentials

_Check = Callable[["_Clauses"], Coroutine[Any, Any, None]]
_NEEDS: dict[str, type[Fault]] = {}


def clauses(provokable: Iterable[type[Fault]]) -> list[str]:
    """Return the names of the clauses that can be checked if these faults can be provoked."""
    known = set(provokable)
    return [
        name.removeprefix("check_")
        for name in vars(_Clauses)
        if name.startswith("check_") and (name not in _NEEDS or _NEEDS[name] in known)
    ]


async def check(clause: str, bench: MakeBench) -> None:
    """Check one clause.

    Raises:
        AssertionError: the clause is violated.
        RuntimeError: Python runs without assertions.
    """
    if not __debug__:
        raise RuntimeError("assertions are disabled, so nothing can be checked. Run Python without -O.")
    name = f"check_{clause}"
    faults = [_NEEDS[name]()] if name in _NEEDS else []
    async with bench(faults) as made:
        subject = _Clauses(made)
        await made.source.open(subject.events.append)
        await made.source.recover(())  # as an AM does in its first attempt, too
        try:
            await getattr(subject, name)()
        finally:
            await subject.source.close()


def _needs(fault: type[Fault]) -> Callable[[_Check], _Check]:
    def mark(method: _Check) -> _Check:
        _NEEDS[method.__name__] = fault
        return method

    return mark


class _Clauses(BenchDriver):
    """The contract, one method for each clause. The allocator is open; it is closed afterwards."""

    # --- demand ---------------------------------------------------------------------------------------------------

    async def check_nothing_comes_unasked(self) -> None:
        """Without demand no container is granted."""
        await self.wait_quietly()
        assert self.events == []

    async def check_demand_is_granted(self) -> None:
        """A demand is answered with that number of grants of the role, each with its own id and a host."""
        self.source.set_demand("worker", 3)
        granted = await self.wait_for_granted(3)
        assert [grant.role for grant in granted] == ["worker"] * 3
        assert len({grant.container for grant in granted}) == 3
        assert all(grant.host for grant in granted)

    async def check_roles_are_demanded_apart(self) -> None:
        """Each role has its own demand."""
        self.source.set_demand("worker", 2)
        self.source.set_demand("ps", 1)
        granted = await self.wait_for_granted(3)
        assert sorted(grant.role for grant in granted) == ["ps", "worker", "worker"]

    async def check_same_demand_again_grants_nothing(self) -> None:
        """Repeating the current demand does nothing."""
        self.source.set_demand("worker", 2)
        self.source.set_demand("worker", 2)
        await self.wait_for_granted(2)
        self.source.set_demand("worker", 2)
        await self.wait_quietly()
        assert len(self.find_events(Granted)) == 2

    async def check_raised_demand_grants_the_difference(self) -> None:
        """The demand is a total: granted containers count."""
        self.source.set_demand("worker", 1)
        await self.wait_for_granted(1)
        self.source.set_demand("worker", 3)
        await self.wait_for_granted(3)
        await self.wait_quietly()
        assert len(self.find_events(Granted)) == 3

    async def check_lowered_demand_takes_nothing_away(self) -> None:
        """A granted container stays when the demand is lowered."""
        first, *_ = await self.launch("worker", 2)
        self.source.set_demand("worker", 0)
        await self.wait_quietly()
        assert self.find_events(ContainerEnded) == []
        assert await self.bench.is_alive(first)

    async def check_lowered_demand_is_not_refilled(self) -> None:
        """A container that ends after the demand was lowered is not replaced until the demand is raised."""
        first, second = await self.launch("worker", 2)
        self.source.set_demand("worker", 1)
        await self.bench.crash_executor(first)
        await self.wait_for_ended(1)
        await self.wait_quietly()
        assert len(self.find_events(Granted)) == 2
        self.source.set_demand("worker", 2)
        granted = await self.wait_for_granted(3)
        assert granted[-1].container not in (first, second)

    async def check_impossible_demand_is_refused(self) -> None:
        """A demand that can never be satisfied is refused at once, with a reason."""
        self.source.set_demand("worker", 1000)
        await self.wait_until(lambda: bool(self.find_events(Unsatisfiable)))
        assert self.find_events(Unsatisfiable)[0].role == "worker"
        assert self.find_events(Unsatisfiable)[0].reason
        assert self.find_events(Granted) == []

    async def check_raised_memory_is_granted(self) -> None:
        """Containers granted after the memory of a role was raised have at least so much, or no limit of their own."""
        await self.launch("worker", 1)
        larger = 2 * self.bench.spec.roles["worker"].resources.memory
        self.source.set_memory("worker", larger)
        self.source.set_demand("worker", 2)
        granted = await self.wait_for_granted(2)
        assert granted[-1].memory is None or granted[-1].memory >= larger

    async def check_opened_twice(self) -> None:
        """A second open changes nothing: events still arrive once, at the first sink."""
        others: list[Event] = []
        await self.source.open(others.append)
        self.source.set_demand("worker", 1)
        await self.wait_for_granted(1)
        assert others == []

    async def check_recovery_finds_nothing_of_a_new_job(self) -> None:
        """The first AM attempt recovers no containers."""
        assert list(await self.source.recover(())) == []

    # --- launching ------------------------------------------------------------------------------------------------

    async def check_executor_gets_its_task(self) -> None:
        """The executor gets exactly the launch data of the AM."""
        self.source.set_demand("ps", 1)
        (grant,) = await self.wait_for_granted(1)
        task, secret = self.build_task(grant.container, "ps", 0), build_credentials()
        await self.source.launch(grant.container, task, secret)
        assert await self.bench.fetch_payload(grant.container) == (task, secret)

    async def check_secrets_are_not_seen(self) -> None:
        """Neither the arguments nor the environment of an executor hold a secret."""
        self.source.set_demand("ps", 1)
        (grant,) = await self.wait_for_granted(1)
        secret = AmCredentials(token="ab" * 32, key="-----KEY-----", certificate="-----CERT-----", ca="-----CA-----")
        await self.source.launch(grant.container, self.build_task(grant.container, "ps", 0), secret)
        await self.bench.fetch_payload(grant.container)
        seen = await self.bench.read_visible_data(grant.container)
        assert not [text for text in ("ab" * 32, "-----") if text in seen]

    async def check_launched_twice(self) -> None:
        """A repeated launch starts one executor."""
        self.source.set_demand("worker", 1)
        (grant,) = await self.wait_for_granted(1)
        task, secret = self.build_task(grant.container, "worker", 0), build_credentials()
        await asyncio.gather(
            self.source.launch(grant.container, task, secret), self.source.launch(grant.container, task, secret)
        )
        await self.bench.fetch_payload(grant.container)
        await self.source.launch(grant.container, task, secret)
        self.source.set_demand("worker", 0)
        await self.bench.crash_executor(grant.container)
        await self.wait_for_ended(1)
        assert not await self.bench.is_alive(grant.container)

    async def check_launch_in_an_ended_container(self) -> None:
        """A launch in an ended container raises SchedulerError."""
        (container,) = await self.launch("worker", 1)
        self.source.set_demand("worker", 0)
        self.source.kill(container, "test")
        await self.wait_for_ended(1)
        assert await self.is_launch_refused(container)

    async def check_ended_while_it_starts(self) -> None:
        """The end of a container killed during its launch is reported exactly once, and no process of it survives."""
        self.source.set_demand("worker", 1)
        (grant,) = await self.wait_for_granted(1)
        self.source.set_demand("worker", 0)
        launch = asyncio.ensure_future(
            self.source.launch(grant.container, self.build_task(grant.container, "worker", 0), build_credentials())
        )
        await asyncio.sleep(0)
        self.source.kill(grant.container, "test")
        refused = isinstance((await asyncio.gather(launch, return_exceptions=True))[0], SchedulerError)
        if not refused:
            await self.wait_for_ended(1)
        await self.wait_quietly()
        assert len(self.find_events(ContainerEnded)) == (0 if refused else 1)
        assert not await self.bench.is_alive(grant.container)

    # --- ending ---------------------------------------------------------------------------------------------------

    async def check_unused_container_is_given_back(self) -> None:
        """A container in which nothing was launched ends at once when it is released."""
        self.source.set_demand("worker", 2)
        first, _ = await self.wait_for_granted(2)
        self.source.set_demand("worker", 1)
        self.source.release(first.container, allocator_bench.TIMEOUT_SECONDS)
        assert (await self.wait_for_ended(1))[0].container == first.container
        await self.wait_quietly()
        assert len(self.find_events(Granted)) == 2

    async def check_release_leaves_time(self) -> None:
        """A released executor that exits within the timeout is not killed."""
        (container,) = await self.launch("worker", 1)
        self.source.set_demand("worker", 0)
        self.source.release(container, allocator_bench.TIMEOUT_SECONDS)
        await self.wait_quietly()
        assert self.find_events(ContainerEnded) == []
        assert await self.bench.is_alive(container)
        await self.bench.end_executor(container)
        await self.wait_for_ended(1)
        assert not await self.bench.is_alive(container)

    async def check_release_ends_by_force(self) -> None:
        """After the timeout a released executor is killed, with all processes it started."""
        (container,) = await self.launch("worker", 1)
        self.source.set_demand("worker", 0)
        self.source.release(container, 0.05)
        (end,) = await self.wait_for_ended(1)
        assert (end.container, bool(end.cause)) == (container, True)
        assert not await self.bench.is_alive(container)

    async def check_released_twice(self) -> None:
        """The shortest timeout of repeated releases counts, and one end is reported."""
        (container,) = await self.launch("worker", 1)
        self.source.set_demand("worker", 0)
        self.source.release(container, 10 * allocator_bench.TIMEOUT_SECONDS)
        self.source.release(container, 0.05)
        self.source.release(container, 10 * allocator_bench.TIMEOUT_SECONDS)
        await self.wait_for_ended(1)
        self.source.release(container, 0.0)
        await self.wait_quietly()
        assert len(self.find_events(ContainerEnded)) == 1

    async def check_kill_ends_everything(self) -> None:
        """When the end of a killed container is reported, its processes are dead; the cause contains the reason."""
        (container,) = await self.launch("worker", 1)
        self.source.set_demand("worker", 0)
        self.source.kill(container, "it fell silent")
        (end,) = await self.wait_for_ended(1)
        assert "it fell silent" in end.cause
        assert not await self.bench.is_alive(container)

    async def check_killed_twice(self) -> None:
        """A second kill, or a kill of an unknown container, does nothing."""
        (container,) = await self.launch("worker", 1)
        self.source.set_demand("worker", 0)
        self.source.kill(container, "first")
        self.source.kill(container, "second")
        await self.wait_for_ended(1)
        self.source.kill(container, "third")
        self.source.kill("c-none", "unknown")
        self.source.release("c-none", 0.0)
        await self.wait_quietly()
        assert len(self.find_events(ContainerEnded)) == 1

    async def check_kill_after_release(self) -> None:
        """A kill does not wait for the timeout of a release."""
        (container,) = await self.launch("worker", 1)
        self.source.set_demand("worker", 0)
        self.source.release(container, 10 * allocator_bench.TIMEOUT_SECONDS)
        self.source.kill(container, "now")
        await self.wait_for_ended(1)
        assert not await self.bench.is_alive(container)

    async def check_end_is_reported_once_and_refilled(self) -> None:
        """The death of an executor is reported once; its processes are dead; a replacement is granted."""
        first, second = await self.launch("worker", 2)
        await self.bench.crash_executor(first)
        (end,) = await self.wait_for_ended(1)
        assert end.container == first
        assert end.cause
        assert not await self.bench.is_alive(first)
        assert await self.bench.is_alive(second)
        granted = await self.wait_for_granted(3)
        assert granted[-1].container not in (first, second)
        assert granted[-1].role == "worker"
        await self.wait_quietly()
        assert len(self.find_events(ContainerEnded)) == 1

    async def check_close_leaves_nothing(self) -> None:
        """After close no process and no file is left, and no event arrives. A second close does nothing."""
        await self.launch("worker", 2)
        self.source.set_demand("ps", 1)
        await self.wait_for_granted(3)
        before = len(self.events)
        await self.source.close()
        await self.source.close()
        await self.wait_quietly()
        assert list(await self.bench.list_leftovers()) == []
        assert len(self.events) == before

    async def check_close_before_anything(self) -> None:
        """An allocator that was only opened leaves nothing behind."""
        await self.source.close()
        assert list(await self.bench.list_leftovers()) == []

    # --- faults ---------------------------------------------------------------------------------------------------

    @_needs(SlowContainer)
    async def check_slow_container(self) -> None:
        """Queued reports that there is no room; with room, the container is granted and an empty Queued follows."""
        self.source.set_demand("worker", 1)
        await self.wait_until(lambda: any(event.reason for event in self.find_events(Queued)))
        self.bench.make_room()
        await self.wait_for_granted(1)
        await self.wait_until(lambda: self.find_events(Queued)[-1].reason == "")
        assert len(self.find_events(Granted)) == 1

    @_needs(RefusedContainer)
    async def check_refused_container(self) -> None:
        """A refused launch raises; no end is reported, and a replacement is granted."""
        self.source.set_demand("worker", 1)
        (grant,) = await self.wait_for_granted(1)
        assert await self.is_launch_refused(grant.container)
        granted = await self.wait_for_granted(2)
        await self.wait_quietly()
        assert self.find_events(ContainerEnded) == []
        assert granted[-1].container != grant.container

    @_needs(LostContainer)
    async def check_lost_container(self) -> None:
        """A lost container is reported once and replaced; the replacement works."""
        (container,) = await self.launch("worker", 1)
        (end,) = await self.wait_for_ended(1)
        assert end.container == container
        relaunched = (await self.wait_for_granted(2))[-1].container
        await self.source.launch(relaunched, self.build_task(relaunched, "worker", 0), build_credentials())
        await self.bench.fetch_payload(relaunched)
        assert await self.bench.is_alive(relaunched)

    @_needs(ContainerExitsBeforeRegistering)
    async def check_container_exits_before_registering(self) -> None:
        """An executor that exits right after its start is reported once, with its exit code."""
        self.source.set_demand("worker", 1)
        (grant,) = await self.wait_for_granted(1)
        await self.source.launch(grant.container, self.build_task(grant.container, "worker", 0), build_credentials())
        (end,) = await self.wait_for_ended(1)
        assert "exit code 3" in end.cause
        assert (await self.wait_for_granted(2))[-1].container != grant.container

    @_needs(LostAnswer)
    async def check_lost_answer(self) -> None:
        """A lost answer is no refusal: repeating the demand gets it, and no container is granted twice."""
        self.source.set_demand("worker", 2)
        await self.wait_for_granted(1)
        await self.wait_quietly()
        assert len(self.find_events(Granted)) == 1
        self.source.set_demand("worker", 2)
        granted = await self.wait_for_granted(2)
        await self.wait_quietly()
        assert len(self.find_events(Granted)) == 2
        assert granted[0].container != granted[1].container

    # --- executors that enlist ---------------------------------------------------------------------------------------

    @_needs(SilentExecutor)
    async def check_enlist_after_launch(self) -> None:
        """A launch waits for the executor."""
        launching = await self.begin_launch()
        await self.wait_quietly()
        assert not launching.done()
        self.bench.make_room()
        await launching
        (grant,) = self.find_events(Granted)
        await self.bench.fetch_payload(grant.container)
        assert await self.bench.is_alive(grant.container)

    @_needs(SilentExecutor)
    async def check_enlist_before_launch(self) -> None:
        """An executor waits for its launch."""
        self.bench.make_room()
        self.source.set_demand("worker", 1)
        (grant,) = await self.wait_for_granted(1)
        await self.wait_quietly()
        await self.source.launch(grant.container, self.build_task(grant.container, "worker", 0), build_credentials())
        await self.bench.fetch_payload(grant.container)

    @_needs(SilentExecutor)
    async def check_enlist_twice(self) -> None:
        """A second process in the place of an executor is refused, and one of no container."""
        self.bench.make_room()
        (container,) = await self.launch("worker", 1)
        for name in (container, "c-none"):
            (refused,) = await asyncio.gather(self.source.enlist(name, "another"), return_exceptions=True)
            assert isinstance(refused, SchedulerError)

    @_needs(SilentExecutor)
    async def check_container_ends_while_launch_waits(self) -> None:
        """The launch returns, the end is reported once, and a replacement is granted."""
        launching = await self.begin_launch()
        (grant,) = self.find_events(Granted)
        await self.bench.crash_executor(grant.container)
        await launching
        await self.wait_for_granted(2)
        assert [end.container for end in self.find_events(ContainerEnded)] == [grant.container]

    @_needs(SilentExecutor)
    async def check_next_attempt_launches_again(self) -> None:
        """An executor that has not enlisted when its AM dies gets its task from the next AM attempt."""
        launching = await self.begin_launch()
        (grant,) = self.find_events(Granted)
        container = grant.container
        self.source = await self.bench.start_next_attempt()
        launching.cancel()
        await self.source.open(self.events.append)
        known = KnownContainer(id=container, role="worker", host=grant.host, task=TaskId("worker", 0))
        assert list(await self.source.recover([known])) == [container]
        self.source.set_demand("worker", 1)
        self.bench.make_room()
        await self.source.launch(container, self.build_task(container, "worker", 0), build_credentials())
        await self.bench.fetch_payload(container)
        assert (len(self.find_events(Granted)), self.find_events(ContainerEnded)) == (1, [])
