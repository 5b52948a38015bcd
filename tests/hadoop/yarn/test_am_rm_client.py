"""A master and a fake ResourceManager: over real connections, with everything that goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from tests.support.hadoop.fake_resource_manager import YARN, FakeResourceManager
from tests.support.hadoop.faults import Cut, DelayResponse, DropResponse, HoldResponse, Refuse
from tests.support.hadoop.ipc_server import Incoming
from tony.hadoop.configuration.service_addresses import ServiceAddress
from tony.hadoop.configuration.settings import HadoopConfiguration
from tony.hadoop.errors import InvalidApplicationMasterRequestError, RemoteError
from tony.hadoop.failover import DaemonsUnavailableError, FailoverProxy, Policy
from tony.hadoop.wire.application_master import MASTER_PROTOCOL, AllocateRequest
from tony.hadoop.wire.placement import NODE, forbid_tags
from tony.hadoop.wire.yarn_records import Container, ContainerId, FinalStatus, NodeId, Resource
from tony.hadoop.yarn import am_rm_client
from tony.hadoop.yarn.am_rm_client import AttemptEndedError, HeartbeatInterval, MasterClient, create_scheduler_proxy
from tony.hadoop.yarn.request_table import AllocationUpdate, ContainerRequest
from tony.retry import Backoff

SMALL = ContainerRequest(resource=Resource(memory=512, vcores=1))
NODES = (NodeId(host="node-1", port=1), NodeId(host="node-2", port=2))
QUICK = Policy(give_up_after=10.0, shortest=0.01, longest=0.02)


class Story:
    """A master under test: what it was told, and means to wait for it."""

    def __init__(self, manager: FakeResourceManager, master: MasterClient) -> None:
        self.manager, self.master = manager, master
        self.news: list[AllocationUpdate] = []
        self._came = asyncio.Event()

    def hear(self, news: AllocationUpdate) -> None:
        self.news.append(news)
        self._came.set()

    @property
    def granted(self) -> list[Container]:
        return [each for news in self.news for each in news.granted]

    @property
    def ended(self) -> list[tuple[ContainerId | None, int]]:
        return [(each.id, each.exit_status) for news in self.news for each in news.completed]

    async def until(self, condition: Callable[[Story], object]) -> None:
        while not condition(self):
            self._came.clear()
            await self._came.wait()

    async def beats(self, count: int) -> None:
        await self.manager.server.wait_called("allocate", len(self.manager.server.named("allocate")) + count)


def proxy(*managers: FakeResourceManager, policy: Policy = QUICK) -> FailoverProxy:
    return FailoverProxy(
        name="ResourceManager",
        daemons=[
            ServiceAddress(id=f"rm{number}", address=each.server.address) for number, each in enumerate(managers, 1)
        ],
        login=lambda _: managers[0].login,
        protocol=MASTER_PROTOCOL,
        policy=policy,
    )


@asynccontextmanager
async def mastering(
    manager: FakeResourceManager,
    *,
    pace: HeartbeatInterval | None = None,
    policy: Policy = QUICK,
    registers: bool = True,
) -> AsyncIterator[Story]:
    async with manager.server:
        master = MasterClient(proxy(manager, policy=policy), pace=pace)
        story = Story(manager, master)
        beating = None
        if registers:
            await master.register("here", 1, "http://here:1/")
            beating = asyncio.create_task(master.run(story.hear))
        try:
            yield story
        finally:
            await master.close()
            if beating is not None:
                beating.cancel()
                await asyncio.gather(beating, return_exceptions=True)


async def test_a_whole_life() -> None:
    manager = FakeResourceManager(nodes=NODES)
    async with manager.server:
        master = MasterClient(proxy(manager))
        registration = await master.register("here", 1234, "http://here:1234/")
        assert registration.queue == "default"
        assert [each.name for each in registration.resource_types] == ["memory-mb", "vcores"]
        story = Story(manager, master)
        beating = asyncio.create_task(master.run(story.hear))
        master.want(3, 2, SMALL)
        await story.until(lambda it: len(it.granted) == 2)
        assert {each.allocation_request_id for each in story.granted} == {3}
        assert master.count_outstanding(3) == master.count_outstanding() == 0
        first, second = (each.id for each in story.granted)
        assert first is not None
        assert second is not None
        assert all(each.node and master.node_tokens.get(each.node) for each in story.granted)
        manager.complete(first, 137)
        await story.until(lambda it: it.ended)
        master.release(second)
        await story.until(lambda it: len(it.ended) == 2)
        assert story.ended == [(first, 137), (second, -100)]
        await master.finish(FinalStatus.SUCCEEDED, "well done", "http://history/")
        await beating
        assert manager.final is not None
        assert (manager.final.final_status, manager.final.diagnostics) == (FinalStatus.SUCCEEDED, "well done")
        assert len(manager.server.named("finishApplicationMaster")) == 3
        await master.close()


async def test_a_change_is_sent_at_once() -> None:
    async with mastering(FakeResourceManager(), pace=HeartbeatInterval(fast=30.0, slow=30.0)) as story:
        await story.manager.server.wait_called("allocate")
        story.master.want(1, 1, SMALL)
        await story.until(lambda it: it.granted)
        story.master.exclude("bad")
        await story.beats(1)
        assert story.manager.excluded == {"bad"}
        story.master.include("bad")
        await story.beats(1)
        assert story.manager.excluded == set()


async def test_the_heartbeat_is_fast_while_something_is_wanted_and_slow_when_not() -> None:
    """The few of the beginning in half a second; and twenty, which at the slow pace would take ten minutes."""
    pace = HeartbeatInterval(fast=0.02, slow=30.0, settle=0.1)
    async with mastering(FakeResourceManager(grants_by_hand=True), pace=pace) as story:
        await asyncio.sleep(0.6)
        assert len(story.manager.server.named("allocate")) <= 8
    async with mastering(FakeResourceManager(grants_by_hand=True), pace=pace) as story:
        story.master.want(1, 1, SMALL)
        await story.manager.server.wait_called("allocate", 20)


async def test_many_wishes_in_one_go_are_few_heartbeats() -> None:
    async with mastering(FakeResourceManager(), pace=HeartbeatInterval(fast=30.0, slow=30.0)) as story:
        for key in range(50):
            story.master.want(key, 1, SMALL)
        await story.until(lambda it: len(it.granted) == 50)
        assert len(story.manager.server.named("allocate")) <= 4


@pytest.mark.parametrize(
    "fault", [DropResponse(executed=True), DropResponse(executed=False), Cut(after=9), DelayResponse(seconds=0.2)]
)
async def test_lost_responses_are_requested_again(fault: DropResponse | Cut | DelayResponse) -> None:
    """Nothing is granted or reported twice, nothing is lost."""
    manager = FakeResourceManager(nodes=NODES)
    async with mastering(manager) as story:
        for turn in range(1, 4):
            manager.server.order(fault, method="allocate")
            story.master.want(1, 2, SMALL)
            await story.until(lambda it, turn=turn: len(it.granted) == 2 * turn)  # type: ignore[misc]
            manager.server.order(fault, method="allocate")
            last = story.granted[-1].id
            assert last is not None
            manager.complete(last, turn)
            await story.until(lambda it, turn=turn: len(it.ended) == turn)  # type: ignore[misc]
        assert len({each.id for each in story.granted}) == 6
        assert len(manager.live) == 3


async def test_a_resource_manager_that_forgot_us() -> None:
    """Registered again, everything said again; the caller sees nothing of it."""
    manager = FakeResourceManager(grants_by_hand=True)
    async with mastering(manager) as story:
        story.master.want(1, 3, SMALL)
        story.master.exclude("bad")
        await story.beats(2)
        manager.forget()
        await manager.server.wait_called("registerApplicationMaster", 2)
        await story.beats(2)
        assert manager.outstanding(1) == 3
        assert manager.excluded == {"bad"}
        first, again = manager.server.named("registerApplicationMaster")
        assert first.request == again.request
        manager.grant(1, 3)
        await story.until(lambda it: len(it.granted) == 3)
        assert story.granted[0].id is not None
        assert (story.granted[0].id.number or 0) >> 40 == 1


async def test_a_resource_manager_that_is_away_for_a_while() -> None:
    """Killed, gone, and back with an empty memory."""
    manager = FakeResourceManager()
    async with mastering(manager) as story:
        story.master.want(1, 1, SMALL)
        await story.until(lambda it: it.granted)
        await manager.server.stop()
        story.master.want(1, 2, SMALL)
        await asyncio.sleep(0.1)
        manager.forget()
        await manager.server.start()
        await story.until(lambda it: len(it.granted) == 3)


async def test_failover() -> None:
    """The other one of a pair knows the token, and nothing else."""
    first, second = FakeResourceManager(), FakeResourceManager()
    second.tokens.update(first.tokens)
    async with first.server, second.server:
        master = MasterClient(proxy(first, second))
        await master.register("here", 1, "")
        story = Story(second, master)
        beating = asyncio.create_task(master.run(story.hear))
        await first.server.wait_called("allocate")
        await first.server.stop()
        master.want(1, 1, SMALL)
        await story.until(lambda it: it.granted)
        await master.finish(FinalStatus.SUCCEEDED)
        await beating
        await master.close()


async def test_a_new_token_is_used_at_once() -> None:
    """Storing it would not do: the next connection must come with it."""
    manager = FakeResourceManager()
    async with mastering(manager) as story:
        await manager.server.wait_called("allocate")
        token = manager.roll_token(keep_old=False)
        await story.beats(3)
        assert manager.server.calls[-1].caller.token == token.identifier
        assert story.master.token == token
        manager.server.drop_all()
        await story.beats(2)


async def test_an_ask_that_is_refused_does_not_end_the_heartbeat() -> None:
    """It is told; the others are granted."""
    async with mastering(FakeResourceManager()) as story:
        story.master.want(1, 1, SMALL)
        story.master.want(2, 4, ContainerRequest(resource=Resource(memory=99999)))
        story.master.want(3, 1, SMALL)
        await story.until(lambda it: len(it.granted) == 2 and any(news.refused for news in it.news))
        (refused,) = (each for news in story.news for each in news.refused)
        assert (refused.key, refused.count) == (2, 4)


@pytest.mark.parametrize(
    ("class_name", "message", "times"),
    [
        (f"{YARN}InvalidLabelResourceRequestException", "label gpu", 1),
        (f"{YARN}YarnException", f"{YARN}SchedulerInvalidResoureRequestException: Key=SchedulerRequestKey", 1),
        (f"{YARN}YarnException", "Found non empty SchedulingRequest of AllocateRequest, handler disabled", 1),
        (f"{YARN}YarnException", "something else that it does not like", 6),
    ],
)
async def test_other_ways_to_refuse_an_ask(
    class_name: str, message: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By class, by what a wrapped exception says, or by saying the same until there is no other reason left."""
    monkeypatch.setattr(am_rm_client, "_ODD_RESPONSE_PAUSE_SECONDS", 0.001)
    async with mastering(FakeResourceManager()) as story:
        await story.beats(1)
        story.manager.server.order(Refuse(class_name=class_name, message=message), method="allocate", times=times)
        story.master.want(1, 2, SMALL)
        await story.until(lambda it: it.news)
        (refused,) = story.news[0].refused
        assert (refused.key, refused.count, refused.reason) == (1, 2, message)
        story.master.want(2, 1, SMALL)
        await story.until(lambda it: it.granted)


async def test_containers_of_earlier_attempts() -> None:
    """Some come with the registration, some later; each once, with the tokens of their nodes."""
    manager = FakeResourceManager(nodes=NODES)
    old = [Container(id=ContainerId(number=number), node=NODES[number]) for number in range(2)]
    manager.previous = (old[0],)
    async with mastering(manager, registers=False) as story:
        registration = await story.master.register("here", 1, "")
        assert registration.previous_containers == (old[0],)
        assert story.master.node_tokens.get(NODES[0]) == manager.node_token(NODES[0])
        manager.recover(old[0], old[1])
        beating = asyncio.create_task(story.master.run(story.hear))
        await story.until(lambda it: it.news)
        assert story.news[0].recovered == (old[1],)
        assert len(story.master.node_tokens) == 2
        await story.master.finish(FinalStatus.SUCCEEDED)
        await beating


async def test_containers_of_the_second_registration_are_reported() -> None:
    """The registration is ours alone then; the caller hears of it as of other news."""
    manager = FakeResourceManager(nodes=NODES)
    async with mastering(manager) as story:
        await story.beats(1)
        old = Container(id=ContainerId(number=1), node=NODES[0])
        manager.previous = (old,)
        manager.forget()
        await story.until(lambda it: it.news)
        assert story.news[0].recovered == (old,)


async def test_a_registration_whose_response_was_lost() -> None:
    """The second one is refused as a duplicate, and counts as success."""
    manager = FakeResourceManager()
    async with mastering(manager, registers=False) as story:
        manager.server.order(DropResponse(executed=True), method="registerApplicationMaster")
        await story.master.register("here", 1, "")
        beating = asyncio.create_task(story.master.run(story.hear))
        story.master.want(1, 1, SMALL)
        await story.until(lambda it: it.granted)
        await story.master.finish(FinalStatus.FAILED)
        await beating


async def test_a_lost_registration_response() -> None:
    """What is left of earlier attempts was in the answer that was lost: the next one will hear it."""
    manager = FakeResourceManager()
    async with mastering(manager, registers=False) as story:
        manager.server.order(DropResponse(executed=True), method="registerApplicationMaster")
        with pytest.raises(AttemptEndedError, match="containers of earlier attempts"):
            await story.master.register("here", 1, "", is_heir=True)


async def test_an_attempt_that_is_over() -> None:
    """Nothing is tried again: the master must leave."""
    gone = Refuse(class_name=f"{YARN}ApplicationAttemptNotFoundException", message="doesn't exist in cache")
    manager = FakeResourceManager()
    async with mastering(manager, registers=False) as story:
        manager.server.order(gone, method="registerApplicationMaster")
        with pytest.raises(AttemptEndedError, match="cannot register"):
            await story.master.register("here", 1, "")
        await story.master.register("here", 1, "")
        manager.server.order(gone, method="allocate", skip=1)
        with pytest.raises(AttemptEndedError, match="has ended this attempt"):
            await story.master.run(story.hear)
        manager.server.order(gone, method="finishApplicationMaster")
        with pytest.raises(AttemptEndedError, match="had ended before"):
            await story.master.finish(FinalStatus.SUCCEEDED)


async def test_odd_answers_are_borne_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """A NullPointerException of the ResourceManager's is no reason to die; many in a row are."""
    monkeypatch.setattr(am_rm_client, "_ODD_RESPONSE_PAUSE_SECONDS", 0.001)
    odd = Refuse(class_name="java.lang.NullPointerException", message="")
    manager = FakeResourceManager()
    async with mastering(manager, registers=False) as story:
        await story.master.register("here", 1, "")
        manager.server.order(odd, method="allocate", times=5)
        beating = asyncio.create_task(story.master.run(story.hear))
        story.master.want(1, 1, SMALL)
        await story.until(lambda it: it.granted)
        await story.beats(3)
        manager.server.order(odd, method="allocate", times=6)
        story.master.wake()
        with pytest.raises(RemoteError, match="NullPointerException"):
            await beating


async def test_an_unknown_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ResourceManager that starts may know it in a moment; after some tries it never will."""
    monkeypatch.setattr(am_rm_client, "_ODD_RESPONSE_PAUSE_SECONDS", 0.001)
    unknown = Refuse(class_name="org.apache.hadoop.security.token.SecretManager$InvalidToken", message="not found")
    manager = FakeResourceManager()
    async with mastering(manager, registers=False) as story:
        await story.master.register("here", 1, "")
        manager.server.order(unknown, method="allocate", times=3)
        beating = asyncio.create_task(story.master.run(story.hear))
        story.master.want(1, 1, SMALL)
        await story.until(lambda it: it.granted)
        manager.server.order(unknown, method="allocate", times=9)
        story.master.wake()
        with pytest.raises(AttemptEndedError, match="does not know this attempt's token"):
            await beating


async def test_two_masters_of_one_attempt() -> None:
    """The response ids tell: that is an error, and nothing to repair."""
    manager = FakeResourceManager()
    async with mastering(manager, registers=False) as story:
        await story.master.register("here", 1, "")
        for number in range(3):
            manager.answer(AllocateRequest(response_id=number))
        with pytest.raises(InvalidApplicationMasterRequestError, match="Invalid responseId"):
            await story.master.run(story.hear)


async def test_no_resource_manager_for_too_long() -> None:
    """The patience is the configuration's."""
    manager = FakeResourceManager()
    async with mastering(
        manager, registers=False, policy=Policy(give_up_after=0.2, shortest=0.01, longest=0.02)
    ) as story:
        await story.master.register("here", 1, "")
        await manager.server.stop()
        with pytest.raises(DaemonsUnavailableError):
            await story.master.run(story.hear)


async def test_finishing_is_repeated_at_a_new_resource_manager() -> None:
    """The first part of the end went to one that is gone."""
    manager = FakeResourceManager()
    async with mastering(manager, registers=False) as story:
        await story.master.register("here", 1, "")
        manager.forget()
        await story.master.finish(FinalStatus.KILLED)
        assert manager.final is not None
        assert manager.final.final_status is FinalStatus.KILLED
        assert len(manager.server.named("registerApplicationMaster")) == 2


async def test_an_attempt_that_is_forgotten_while_it_ends() -> None:
    """After it was stored, that is what was wanted."""
    gone = Refuse(class_name=f"{YARN}ApplicationAttemptNotFoundException", message="doesn't exist in cache")
    manager = FakeResourceManager()
    async with mastering(manager) as story:
        manager.server.order(gone, method="finishApplicationMaster", skip=1)
        await story.master.finish(FinalStatus.SUCCEEDED)


async def test_the_end_waits_for_a_heartbeat_that_is_out() -> None:
    """They do not overtake each other: what it brings is heard."""
    manager = FakeResourceManager(grants_by_hand=True)
    async with mastering(manager) as story:
        await story.beats(1)
        hold = HoldResponse(executed=True)
        story.master.want(1, 1, SMALL)
        manager.server.order(hold, method="allocate")
        await hold.is_held.wait()
        ending = asyncio.create_task(story.master.finish(FinalStatus.SUCCEEDED))
        await asyncio.sleep(0.05)
        assert manager.server.named("finishApplicationMaster") == []
        hold.release()
        await ending


async def test_a_handler_that_fails_ends_the_heartbeat() -> None:
    manager = FakeResourceManager()
    async with mastering(manager, registers=False) as story:
        await story.master.register("here", 1, "")
        story.master.want(1, 1, SMALL)

        def fail(news: AllocationUpdate) -> None:
            raise ArithmeticError("the handler's")

        with pytest.raises(ArithmeticError, match="the handler's"):
            await story.master.run(fail)


@pytest.mark.parametrize(("paired", "expiry", "timeout"), [(True, 60, 15), (True, 900, 120), (False, 60, 120)])
async def test_the_door_of_a_configuration(paired: bool, expiry: int, timeout: int) -> None:
    """Both of a pair, at the scheduler's port. Of a pair one that hangs is left before the master is taken for dead."""
    settings = HadoopConfiguration.load(
        None,
        {},
        given={
            "yarn.resourcemanager.ha.enabled": str(paired).lower(),
            "yarn.resourcemanager.ha.rm-ids": "a,b",
            "yarn.resourcemanager.hostname": "alone",
            "yarn.resourcemanager.hostname.a": "one",
            "yarn.resourcemanager.scheduler.address.b": "two:99",
            "yarn.am.liveness-monitor.expiry-interval-ms": f"{expiry}s",
        },
    )
    made = create_scheduler_proxy(settings, FakeResourceManager().token)
    assert [str(each.address) for each in made.daemons] == (["one:8030", "two:99"] if paired else ["alone:8030"])
    assert made.options.call_timeout == timeout
    await made.close()


async def test_rejected_requests_are_repeated_after_growing_pauses() -> None:
    """Until there is room: then all of it is granted, and the pauses are short again."""
    apart_from_each_other = ContainerRequest(resource=SMALL.resource, tags=("w",), constraint=forbid_tags(NODE, "w"))
    manager = FakeResourceManager(places=1)
    async with mastering(manager, pace=HeartbeatInterval(retry_delays=Backoff(first=0.02, most=0.08))) as story:

        def told() -> list[int]:
            return [each.count for news in story.news for each in news.rejected]

        begun = asyncio.get_running_loop().time()
        story.master.want(1, 3, apart_from_each_other)
        await story.until(lambda it: len(told()) == 5)
        assert asyncio.get_running_loop().time() - begun >= 0.02 + 0.04 + 0.08 + 0.08
        assert (len(story.granted), told(), story.master.count_outstanding()) == (1, [2] * 5, 2)
        manager.places = 1
        await story.until(lambda it: len(it.granted) == 2)
        manager.places = 5
        await story.until(lambda it: len(it.granted) == 3)
        await story.beats(3)
        assert (story.master.count_outstanding(), len(manager.live)) == (0, 3)
        asked = [each for request in manager.server.named("allocate") for each in _requests(request)]
        assert set(asked[1:]) == {2, 1}


def _requests(incoming: Incoming) -> list[int | None]:
    """How many were asked for with constraints."""
    request = incoming.request
    assert isinstance(request, AllocateRequest)
    return [each.sizing.count for each in request.scheduling_requests if each.sizing]


@pytest.mark.parametrize(
    ("since_change", "wanting", "expected"),
    [
        (0.0, True, 0.02),
        (0.9, True, 0.02),
        (1.0, True, 0.05),
        (5.0, True, 0.05),
        (10.0, True, 0.1),
        (50.0, True, 0.5),
        (3600.0, True, 1.0),
        (0.0, False, 0.05),
        (1.9, False, 0.05),
        (2.0, False, 1.0),
        (float("inf"), False, 1.0),
        (float("inf"), True, 1.0),
    ],
)
def test_intervals(since_change: float, wanting: bool, expected: float) -> None:
    """Fast after a change and while something is to come; slower the longer it does not come."""
    assert HeartbeatInterval().compute_interval(since_change, wanting=wanting) == pytest.approx(expected)
