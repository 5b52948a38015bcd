"""What is wanted, told to a ResourceManager that counts as the real one does, loses answers and forgets."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.hadoop.fake_resource_manager import FakeResourceManager
from tests.support.hadoop.ipc_server import FakeRefusalError
from tony.hadoop.ids import format_container
from tony.hadoop.wire.application_master import (
    AllocateRequest,
    AllocateResponse,
    NegotiablePreemption,
    PreemptedContainer,
    Preemption,
    RegisterRequest,
    StrictPreemption,
)
from tony.hadoop.wire.placement import NODE, RejectedRequest, RejectionReason, ResourceSizing, forbid_tags
from tony.hadoop.wire.proto import replace
from tony.hadoop.wire.yarn_records import Container, ContainerId, ContainerStatus, NodeId, NodeReport, Resource
from tony.hadoop.yarn.request_table import AllocationUpdate, AskTable, ContainerRequest, DeclinedRequest

SMALL = ContainerRequest(resource=Resource(memory=512, vcores=1))
BIG = ContainerRequest(resource=Resource(memory=99999, vcores=1))
APART = ContainerRequest(resource=Resource(memory=1), tags=("w",), constraint=forbid_tags(NODE, "w"))
ON_HOSTS = ContainerRequest(resource=Resource(memory=512, vcores=1), hosts=("node-1", "node-2"), racks=("/r1",))


def registered(**how: bool | int) -> FakeResourceManager:
    manager = FakeResourceManager(**how)  # type: ignore[arg-type]
    manager.register(RegisterRequest())
    return manager


def beat(table: AskTable, manager: FakeResourceManager) -> AllocationUpdate:
    try:
        return table.on_response(manager.answer(table.build_request()))
    except FakeRefusalError as refusal:
        return table.on_refused(refusal.message)


def counts(request: AllocateRequest) -> dict[str, int | None]:
    return {ask.resource_name or "": ask.num_containers for ask in request.asks}


def identities(containers: tuple[Container, ...]) -> list[ContainerId]:
    return [container.id for container in containers if container.id is not None]


def test_a_request_is_sent_once_and_counted_down() -> None:
    """What was told is not told again; a grant needs no new ask."""
    table, manager = AskTable(), registered(grants_by_hand=True)
    table.want(7, 3, SMALL)
    assert counts(table.build_request()) == {"*": 3}
    beat(table, manager)
    assert not table.is_changed
    assert table.build_request().asks == ()
    manager.grant(7, 2)
    news = beat(table, manager)
    assert [each.allocation_request_id for each in news.granted] == [7, 7]
    assert (table.count_outstanding(7), table.count_outstanding(), manager.outstanding(7)) == (1, 1, 1)
    assert table.build_request().asks == ()


def test_a_host_is_requested_with_its_rack_and_any() -> None:
    """Three kinds of entries with the same total; a label is set with `*` only."""
    table = AskTable()
    table.want(1, 2, ContainerRequest(resource=Resource(memory=1), hosts=("a", "b"), label="gpu", priority=5))
    asks = {ask.resource_name: ask for ask in table.build_request().asks}
    assert {name: ask.num_containers for name, ask in asks.items()} == {"a": 2, "b": 2, "/default-rack": 2, "*": 2}
    assert {name: ask.node_label_expression for name, ask in asks.items()} == {
        "a": None,
        "b": None,
        "/default-rack": None,
        "*": "gpu",
    }
    assert all(ask.relax_locality and ask.priority and ask.priority.priority == 5 for ask in asks.values())


def test_fewer_none_and_more() -> None:
    """A change says the new total for every place, and nothing for places that are left."""
    table, manager = AskTable(), registered(grants_by_hand=True)
    table.want(1, 2, ON_HOSTS)
    beat(table, manager)
    table.want(1, 2, ON_HOSTS)
    assert not table.is_changed
    table.want(1, 3, SMALL)
    assert counts(table.build_request()) == {"node-1": 0, "node-2": 0, "/r1": 0, "*": 3}
    beat(table, manager)
    table.want(1, 0)
    assert counts(table.build_request()) == {"*": 0}
    beat(table, manager)
    assert manager.outstanding(1) == 0
    table.want(2, 0, SMALL)
    assert not table.is_changed


def test_another_priority_takes_the_old_one_back() -> None:
    """Priorities are part of what an ask is known by."""
    table, manager = AskTable(), registered(grants_by_hand=True)
    table.want(1, 2, SMALL)
    beat(table, manager)
    table.want(1, 2, ContainerRequest(resource=SMALL.resource, priority=9))
    beat(table, manager)
    assert manager.asks == {(1, 1): {"*": 0}, (9, 1): {"*": 2}}


def test_a_request_is_repeated_until_it_is_answered() -> None:
    """What changes meanwhile waits for the next one; the repeated answer counts once."""
    table, manager = AskTable(), registered()
    table.want(1, 2, SMALL)
    lost = manager.answer(table.build_request())
    assert len(lost.allocated) == 2
    table.want(1, 5)
    first = table.build_request()
    assert counts(first) == {"*": 2}
    news = table.on_response(manager.answer(first))
    assert len(news.granted) == 2
    assert table.count_outstanding(1) == 3
    assert counts(table.build_request()) == {"*": 3}
    with pytest.raises(ValueError, match="response without a request"):
        AskTable().on_response(AllocateResponse())


def test_a_grant_that_crosses_an_ask() -> None:
    """The total was sent before the grant was known: it is corrected, and the surplus goes back."""
    table, manager = AskTable(), registered(grants_by_hand=True)
    table.want(1, 2, SMALL)
    beat(table, manager)
    manager.grant(1)
    table.want(1, 3)
    news = beat(table, manager)
    assert (len(news.granted), table.count_outstanding(1), manager.outstanding(1)) == (1, 2, 3)
    manager.grant(1, 3)
    granted = beat(table, manager).granted
    assert (len(granted), table.count_outstanding(1)) == (2, 0)
    beat(table, manager)
    assert len(manager.released) == 1
    assert not set(manager.released) & set(identities(granted))
    assert (manager.outstanding(1), len(manager.live)) == (0, 3)
    assert beat(table, manager).completed == ()  # it was never granted to the table


def test_unrequested_containers_are_released() -> None:
    """Of a key that is not known, or wanted no more."""
    table, manager = AskTable(), registered(grants_by_hand=True)
    manager.grant(3)
    assert not beat(table, manager).is_any
    beat(table, manager)
    assert manager.live == {}


def test_releases_and_exits_are_reported_once() -> None:
    table, manager = AskTable(), registered()
    table.want(1, 1, SMALL)
    (container,) = identities(beat(table, manager).granted)
    table.release(container)
    table.release(container)
    assert table.build_request().releases == (container,)
    (status,) = beat(table, manager).completed
    assert (status.id, status.exit_status) == (container, -100)
    manager.tell_again(status)
    assert not beat(table, manager).is_any
    table.release(container)
    assert not table.is_changed


def test_exits_of_containers_of_earlier_attempts_are_reported() -> None:
    table, manager = AskTable(), registered()
    status = ContainerStatus(id=ContainerId(number=99), exit_status=137)
    manager.tell_again(status)
    assert beat(table, manager).completed == (status,)


def test_excluded_hosts() -> None:
    """Changes are told, the list is not."""
    table, manager = AskTable(), registered()
    table.exclude("a")
    table.exclude("b")
    beat(table, manager)
    assert manager.excluded == {"a", "b"}
    assert table.build_request().blacklist is None
    beat(table, manager)
    table.include("a")
    table.exclude("c")
    beat(table, manager)
    assert manager.excluded == {"b", "c"}


def test_a_new_resource_manager_gets_the_whole_state() -> None:
    """Asks, releases that are not done, excluded hosts; the response id starts again."""
    table, manager = AskTable(), registered(grants_by_hand=True)
    table.want(1, 3, ON_HOSTS)
    table.want(2, 1, SMALL)
    table.exclude("bad")
    beat(table, manager)
    granted = manager.grant(1, 2) + manager.grant(2)
    beat(table, manager)
    assert granted[0].id is not None
    table.release(granted[0].id)
    table.build_request()
    manager.forget()
    with pytest.raises(FakeRefusalError, match="ApplicationMasterNotRegistered"):
        manager.answer(table.build_request())
    table.on_forgotten()
    manager.register(RegisterRequest())
    request = table.build_request()
    assert request.response_id == 0
    assert counts(request) == {"node-1": 1, "node-2": 1, "/r1": 1, "*": 1}
    assert request.releases == (granted[0].id,)
    assert request.blacklist is not None
    assert request.blacklist.additions == ("bad",)


def test_a_refused_ask_does_not_stop_the_others() -> None:
    """They are requested one by one until the bad one is found."""
    table, manager = AskTable(), registered()
    table.want(1, 2, SMALL)
    table.want(2, 3, BIG)
    table.want(3, 1, SMALL)
    told = [beat(table, manager) for _ in range(6)]
    granted = [each.allocation_request_id for news in told for each in news.granted]
    refused = [each for news in told for each in news.refused]
    assert sorted(granted) == [1, 1, 3]
    assert [(each.key, each.count) for each in refused] == [(2, 3)]
    assert "greater than maximum" in refused[0].reason
    assert table.count_outstanding() == 0
    assert not table.is_changed


def test_a_good_ask_that_becomes_a_bad_one_is_taken_back() -> None:
    """What the ResourceManager still holds of it must go."""
    table, manager = AskTable(), registered(grants_by_hand=True)
    table.want(1, 2, SMALL)
    beat(table, manager)
    table.want(1, 2, BIG)
    assert beat(table, manager).refused
    beat(table, manager)
    assert manager.outstanding(1) == 0
    assert not table.is_changed


def test_scheduling_requests() -> None:
    """Tags and constraints are requested the newer way."""
    table, manager = AskTable(), registered()
    table.want(1, 2, APART)
    (request,) = table.build_request().scheduling_requests
    assert (request.allocation_request_id, request.sizing and request.sizing.count) == (1, 2)
    assert request.execution_type is not None
    assert [each.allocation_tags for each in beat(table, manager).granted] == [("w",), ("w",)]
    table.want(1, 1)
    beat(table, manager)
    table.want(1, 0)
    beat(table, manager)
    assert (table.count_outstanding(1), manager.outstanding(1)) == (0, 0)


def rejected(count: int) -> DeclinedRequest:
    return DeclinedRequest(key=1, count=count, reason="could not place on node")


def counts_apart(request: AllocateRequest) -> list[int | None]:
    return [each.sizing.count for each in request.scheduling_requests if each.sizing]


def test_rejected_containers_are_requested_again() -> None:
    """Only those, because such a ResourceManager adds up; granted ones are kept."""
    table, manager = AskTable(), registered(places=1)
    table.want(1, 3, APART)
    news = beat(table, manager)
    assert (len(news.granted), news.rejected, news.is_any, news.refused) == (1, (rejected(2),), True, ())
    assert (table.count_outstanding(1), table.is_changed) == (2, False)
    table.repeat_rejected(1)
    manager.places = 1
    assert (table.is_changed, counts_apart(table.build_request())) == (True, [2])
    news = beat(table, manager)
    assert (len(news.granted), news.rejected) == (1, (rejected(1),))
    manager.places = 5
    for _ in range(3):
        news = beat(table, manager)
        table.repeat_rejected(1)
    assert (table.count_outstanding(1), table.is_changed, len(manager.live)) == (0, False, 3)


def test_rejections_of_withdrawn_requests_are_ignored() -> None:
    """The demand fell, the rest was granted, or there was no such request."""
    table, manager = AskTable(), registered(places=0)
    table.repeat_rejected(1)
    table.want(1, 3, APART)
    response = manager.answer(table.build_request())
    table.want(1, 1)
    assert table.on_response(response).rejected == (rejected(1),)
    table.want(1, 0)
    table.repeat_rejected(1)
    assert beat(table, manager).rejected == ()
    table.repeat_rejected(1)
    assert not table.is_changed


def test_rejected_one_by_one() -> None:
    """What the scheduler did not agree to comes one by one: told in one, and asked for in one."""
    table, manager = AskTable(), registered(grants_by_hand=True)
    table.want(1, 3, APART)
    table.want(2, 1, APART)
    requests = table.build_request().scheduling_requests
    single = [replace(each, sizing=ResourceSizing(resources=Resource(memory=1))) for each in requests]
    reason = RejectionReason.COULD_NOT_SCHEDULE_ON_NODE
    rejections = [RejectedRequest(reason=reason, request=single[index]) for index in (0, 0, 1, 1)]
    news = table.on_response(replace(manager.answer(table.build_request()), rejected=tuple(rejections)))
    said = "could not schedule on node"
    assert news.rejected == (DeclinedRequest(key=1, count=2, reason=said), DeclinedRequest(key=2, count=1, reason=said))
    table.repeat_rejected(1)
    table.repeat_rejected(2)
    assert counts_apart(table.build_request()) == [2, 1]


@given(
    st.lists(st.one_of(st.tuples(st.just("want"), st.integers(0, 4)), st.tuples(st.just("places"), st.integers(0, 3))))
)
def test_rejected_requests_are_satisfied_in_the_end(steps: list[tuple[str, int]]) -> None:
    """Demand and room change at will; no more is kept than is wanted, and with room all of it comes."""
    table, manager = AskTable(), registered(places=0)
    for what, number in steps:
        if what == "want":
            table.want(1, number, APART)
        else:
            manager.places = number
        news = beat(table, manager)
        assert sum(each.count for each in news.rejected) <= table.count_outstanding(1)
        table.repeat_rejected(1)
    manager.places = 1000
    for _ in range(4):
        table.repeat_rejected(1)
        beat(table, manager)
    assert (table.count_outstanding(1), table.is_changed) == (0, False)
    assert manager.outstanding(1) == 0


def test_a_new_resource_manager_gets_rejected_requests() -> None:
    table, manager = AskTable(), registered(places=0)
    table.want(1, 3, APART)
    beat(table, manager)
    table.repeat_rejected(1)
    table.on_forgotten()
    manager.forget()
    manager.register(RegisterRequest())
    manager.places = None
    assert counts_apart(table.build_request()) == [3]
    assert len(beat(table, manager).granted) == 3
    assert not table.is_changed


def test_invalid_requests_are_refused() -> None:
    """Numbers below zero, keys without an ask, tags with hosts."""
    table = AskTable()
    for key, total, ask in [(-1, 1, SMALL), (1, -1, SMALL), (1, 1, None)]:
        with pytest.raises(ValueError, match="must not be negative"):
            table.want(key, total, ask)
    with pytest.raises(ValueError, match="cannot have hosts"):
        table.want(1, 1, ContainerRequest(resource=Resource(memory=1), tags=("w",), hosts=("a",)))


def test_nodes_and_preemption_are_passed_on() -> None:
    table, manager = AskTable(), registered()
    report = NodeReport(id=NodeId(host="a", port=1))
    one, two = ContainerId(number=1), ContainerId(number=2)
    manager.update(report)
    manager.preempt(
        Preemption(
            strict=StrictPreemption(containers=(PreemptedContainer(id=one),)),
            negotiable=NegotiablePreemption(containers=(PreemptedContainer(id=two),)),
        )
    )
    news = beat(table, manager)
    assert (news.nodes, news.preempted) == ((report,), (one, two))
    assert news.is_any
    assert not beat(table, manager).is_any


class Masters(RuleBasedStateMachine):
    """Anything may happen in any order; in the end both sides agree, and no container is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.table = AskTable()
        self.manager = registered(grants_by_hand=True)
        self.known: set[ContainerId] = set()
        self.wanted = dict.fromkeys(range(3), 0)
        self.got = dict.fromkeys(range(3), 0)

    def take(self, news: AllocationUpdate) -> None:
        for each in news.granted:
            assert each.id is not None
            assert each.id not in self.known
            self.known.add(each.id)
            self.got[each.allocation_request_id] += 1
        self.known -= {each.id for each in news.completed if each.id is not None}

    @rule(key=st.integers(0, 2), total=st.integers(0, 4), hosts=st.sampled_from([SMALL, ON_HOSTS]))
    def want(self, key: int, total: int, hosts: ContainerRequest) -> None:
        self.table.want(key, total, hosts)
        self.wanted[key] = self.got[key] + total

    @rule(key=st.integers(0, 2), count=st.integers(1, 3))
    def grant(self, key: int, count: int) -> None:
        for _ in range(min(count, self.manager.outstanding(key))):
            self.manager.grant(key)

    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        if self.manager.live:
            live = sorted(self.manager.live, key=format_container)
            self.manager.complete(data.draw(st.sampled_from(live)), 1)

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        self.table.release(data.draw(st.sampled_from(sorted(self.known, key=format_container))))

    @rule(host=st.sampled_from(["a", "b"]), is_bad=st.booleans())
    def exclude(self, host: str, is_bad: bool) -> None:
        (self.table.exclude if is_bad else self.table.include)(host)

    @rule()
    def beats(self) -> None:
        self.take(beat(self.table, self.manager))

    @rule()
    def loses_an_answer(self) -> None:
        self.manager.answer(self.table.build_request())

    @rule()
    def restarts(self) -> None:
        # What was granted and never told is lost with the old one.
        untold = {each.id for each in self.manager._granted}
        last = self.manager._last
        self.manager.forget()
        self.manager.live = {key: each for key, each in self.manager.live.items() if key not in untold}
        if last is not None:
            for each in last.allocated:
                if each.id is not None and each.id not in self.known and each.id not in self.table._granted:
                    self.manager.live.pop(each.id, None)
        self.manager.register(RegisterRequest())
        self.table.on_forgotten()

    @invariant()
    def no_more_than_wanted(self) -> None:
        for key in range(3):
            assert self.got[key] + self.table.count_outstanding(key) == self.wanted[key]

    def teardown(self) -> None:
        for _ in range(4):
            self.take(beat(self.table, self.manager))
        assert not self.table.is_changed
        for key in range(3):
            assert self.manager.outstanding(key) == self.table.count_outstanding(key)
        assert self.manager.excluded == self.table._excluded
        assert set(self.manager.live) == self.known - set(self.table._releasing)
        for _ in range(3):
            for key in range(3):
                self.manager.grant(key, self.manager.outstanding(key))
            self.take(beat(self.table, self.manager))
        assert self.got == self.wanted
        assert self.table.count_outstanding() == 0


TestMasters = Masters.TestCase
TestMasters.settings = settings(max_examples=150, stateful_step_count=30)
