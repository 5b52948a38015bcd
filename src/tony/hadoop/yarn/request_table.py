"""What an application's master wants, as the ResourceManager must be told it: without connections, without time.

    table = AskTable()
    table.want(1, 4, Ask(resource=Resource(memory=512, vcores=1), hosts=("node-1",)))
    response = ...send(table.request())
    news = table.answered(response)          # or table.refused(...), or table.forgotten()

**The protocol.** An ask is a statement of how many are still to come, for a priority, a key (`allocation_request_id`)
and a place. The ResourceManager counts down when it grants, so we do the same. A host is asked for by three entries:
host, rack, and `*` with the real total; a host alone is never served, `*` alone only once per node and heartbeat.

**Lost answers.** A request is repeated exactly as it was until it is answered: for a response id that it knows the
ResourceManager repeats its answer without looking at the rest.

**Grants that cross an ask.** A total that was sent before its sender knew of a grant is too high by that grant; the
next request corrects it. What was granted too much until then is given back at once and never shown (`surplus`).

**Rejections.** Scheduling requests are totals as well, unless the ResourceManager's handler of constraints is
`placement-processor`. That one adds up what it is asked, and gives back (rejects) what finds no place at the moment,
after a few tries of its own. It may fit later, so it stays wanted, and is told as `AllocationUpdate.rejected`; `again`
says it once more, and that alone.

**A new ResourceManager** has forgotten the asks, the releases and the list of excluded hosts: `forgotten()` makes the
next request say all of it again.
"""

from __future__ import annotations

from collections.abc import Iterable

from tony.dataclass import dataclass
from tony.hadoop.wire.application_master import AllocateRequest, AllocateResponse, Blacklist
from tony.hadoop.wire.placement import PlacementConstraint, ResourceSizing, SchedulingRequest
from tony.hadoop.wire.proto import replace
from tony.hadoop.wire.yarn_records import (
    Container,
    ContainerId,
    ContainerStatus,
    ExecutionType,
    ExecutionTypeRequest,
    NodeReport,
    Priority,
    Resource,
    ResourceRequest,
)

ANYWHERE = "*"
DEFAULT_RACK = "/default-rack"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRequest:
    """What the containers of a key are to be like.

    Attributes:
        resource: of each.
        priority: lower numbers are served first.
        hosts: where they would best be, as `NodeReport.id.host` has the names.
        racks: the racks of these hosts (`NodeReport.rack`); `/default-rack` if none is given.
        strict: only on these hosts.
        label: node-label expression; None is the queue's own.
        tags: allocation tags that constraints of other asks see. Needs a cluster that takes scheduling requests, as
            does `constraint`; neither goes with `hosts` and `label`.
        constraint: where they may be, see `tony.hadoop.wire.placement`.
    """

    resource: Resource
    priority: int = 1
    hosts: tuple[str, ...] = ()
    racks: tuple[str, ...] = ()
    strict: bool = False
    label: str | None = None
    tags: tuple[str, ...] = ()
    constraint: PlacementConstraint | None = None

    @property
    def is_scheduling_request(self) -> bool:
        """Whether it must be asked for the newer way."""
        return bool(self.tags) or self.constraint is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRequest:
    """An ask that will never be granted, and is not asked for any more.

    Attributes:
        key: of the ask.
        count: how many were still wanted.
        reason: as the ResourceManager says it.
    """

    key: int
    count: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """An ask for which there is no place now. It is still wanted, but the ResourceManager does not seek any more.

    Attributes:
        key: of the ask.
        count: how many found no place.
        reason: as the ResourceManager says it.
    """

    key: int
    count: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationUpdate:
    """What an answer of the ResourceManager's means.

    Attributes:
        granted: containers, whose `allocation_request_id` is the key. They must be started or released within ten
            minutes.
        completed: containers that ended, each once; also those that nobody here knows (of earlier attempts).
        recovered: containers of earlier attempts that were found again, after a restart of the ResourceManager.
        refused: asks that are not to be.
        rejected: asks that found no place now, and are to be said again (`AskTable.again`).
        surplus: containers that nobody wanted any more; they have been given back.
        nodes: nodes whose state changed.
        preempted: containers that will be killed.
        preemptible: containers that will be killed unless as much is given back otherwise.
        headroom: what the queue could still give, if it was said.
        cluster_nodes: how many nodes there are, if it was said.
    """

    granted: tuple[Container, ...] = ()
    completed: tuple[ContainerStatus, ...] = ()
    recovered: tuple[Container, ...] = ()
    refused: tuple[RefusedRequest, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    surplus: tuple[Container, ...] = ()
    nodes: tuple[NodeReport, ...] = ()
    preempted: tuple[ContainerId, ...] = ()
    preemptible: tuple[ContainerId, ...] = ()
    headroom: Resource | None = None
    cluster_nodes: int | None = None

    @property
    def is_any(self) -> bool:
        """Whether something happened; numbers alone are nothing."""
        return bool(
            self.granted
            or self.completed
            or self.recovered
            or self.refused
            or self.rejected
            or self.surplus
            or self.nodes
            or self.preempted
            or self.preemptible
        )


@dataclass(slots=True, kw_only=True)
class _Want:
    """A key.

    Attributes:
        changed: the ResourceManager must be told.
        sought: how many it seeks, as far as we know. Less than `outstanding` where it rejected some.
        told: what the ResourceManager may still hold of it: place and priority -> its entry.
    """

    ask: ContainerRequest
    outstanding: int
    changed: bool = True
    sought: int = 0
    told: dict[tuple[str, int], ResourceRequest | SchedulingRequest]


@dataclass(slots=True, kw_only=True)
class _Flight:
    """A request that has not been answered."""

    request: AllocateRequest
    carried: dict[int, dict[tuple[str, int], ResourceRequest | SchedulingRequest]]
    excluded: frozenset[str]


class AskTable:
    """All that is wanted, released and excluded.

    Attributes:
        progress: between 0 and 1, for people who look at the application.
    """

    def __init__(self) -> None:
        self.progress = 0.0
        self._wants: dict[int, _Want] = {}
        self._excluded: set[str] = set()
        self._told_excluded: frozenset[str] = frozenset()
        #: Released, and not yet seen to have ended.
        self._releasing: dict[ContainerId, None] = {}
        self._unsent: dict[ContainerId, None] = {}
        self._granted: set[ContainerId] = set()
        self._ended: set[ContainerId] = set()
        self._returned: set[ContainerId] = set()
        self._tracking_url: str | None = None
        self._response_id = 0
        self._flight: _Flight | None = None
        #: Scheduling requests are no totals here.
        self._adds_up = False
        #: After a refusal: ask for one key at a time, to find the one that is refused.
        self._singly: set[int] = set()

    # -- what is wanted

    def want(self, key: int, total: int, ask: ContainerRequest | None = None) -> None:
        """From now on so many containers of a key are still to come, beside those that were granted already.

        Args:
            key: any number from 0 on; one for each kind of container.
            total: 0 to want no more.
            ask: what they are to be like; may be left out when the key is known.

        Raises:
            ValueError: a negative number, or a key of which nothing is known.
        """
        want = self._wants.get(key)
        if ask is None:
            ask = want.ask if want else None
        if key < 0 or total < 0 or ask is None:
            raise ValueError(f"key {key}, {total} containers, {ask}: numbers from 0 on, and an ask are wanted")
        if ask.is_scheduling_request and (ask.hosts or ask.racks or ask.label is not None):
            raise ValueError(f"key {key}: an ask with tags or a constraint has no hosts, racks and label")
        if want is None:
            if total:
                self._wants[key] = _Want(ask=ask, outstanding=total, told={})
        elif (want.outstanding, want.ask) != (total, ask):
            want.ask, want.outstanding, want.changed = ask, total, True

    def outstanding(self, key: int | None = None) -> int:
        """How many are still to come: of a key, or of all."""
        if key is None:
            return sum(want.outstanding for want in self._wants.values())
        return self._wants[key].outstanding if key in self._wants else 0

    def again(self, key: int) -> None:
        """Has what was rejected of a key sought once more."""
        want = self._wants.get(key)
        if want is not None and want.outstanding > want.sought:
            want.changed = True

    def release(self, container: ContainerId) -> None:
        """Gives a container back, started or not; its end will be told."""
        if container not in self._ended and container not in self._releasing:
            self._releasing[container] = None
            self._unsent[container] = None

    def exclude(self, host: str) -> None:
        """No more containers on this host."""
        self._excluded.add(host)

    def include(self, host: str) -> None:
        """Takes an exclusion back."""
        self._excluded.discard(host)

    def show(self, tracking_url: str) -> None:
        """Another page for people."""
        self._tracking_url = tracking_url

    def adopt(self, containers: Iterable[Container]) -> tuple[Container, ...]:
        """Containers of earlier attempts; answers those that are new here."""
        new = tuple(each for each in containers if each.id is not None and each.id not in self._granted)
        self._granted.update(each.id for each in new if each.id is not None)
        return new

    @property
    def is_changed(self) -> bool:
        """Whether the next request has something to say."""
        return bool(
            self._unsent
            or self._tracking_url is not None
            or self._excluded != self._told_excluded
            or any(want.changed for want in self._wants.values())
        )

    @property
    def is_asking(self) -> bool:
        """Whether the request that has not been answered asks for something, so that something can be wrong with it."""
        return bool(self._flight and self._flight.carried)

    # -- requests and answers

    def request(self) -> AllocateRequest:
        """The next request; the same one until it is answered."""
        if self._flight is None:
            self._flight = self._new_flight()
        return self._flight.request

    def answered(self, response: AllocateResponse) -> AllocationUpdate:
        """Takes the answer to the last request."""
        flight, self._flight = self._flight, None
        if flight is None:
            raise ValueError("an answer to nothing")
        self._response_id = response.response_id if response.response_id is not None else self._response_id + 1
        self._settle(flight)
        self._adds_up = self._adds_up or bool(response.rejected)  # nobody else rejects
        granted, surplus = self._take_granted(response.allocated, flight)
        preemption = response.preemption
        strict = preemption.strict if preemption else None
        negotiable = preemption.negotiable if preemption else None
        return AllocationUpdate(
            granted=granted,
            surplus=surplus,
            completed=self._take_completed(response.completed),
            recovered=self.adopt(response.previous_containers),
            rejected=self._take_rejected(response),
            nodes=response.updated_nodes,
            preempted=tuple(each.id for each in strict.containers if each.id) if strict else (),
            preemptible=tuple(each.id for each in negotiable.containers if each.id) if negotiable else (),
            headroom=response.limit,
            cluster_nodes=response.num_cluster_nodes,
        )

    def refused(self, reason: str) -> AllocationUpdate:
        """The ResourceManager took nothing of the last request, for one of its asks can never be granted.

        If it carried but one, that one is given up; else they are asked for one at a time until it is found.
        """
        flight, self._flight = self._flight, None
        carried = list(flight.carried) if flight else []
        for key in carried:
            self._wants[key].changed = True
        if len(carried) != 1:
            self._singly = set(carried)
            return AllocationUpdate()
        key = carried[0]
        self._singly.discard(key)
        want = self._wants[key]
        count, want.outstanding = want.outstanding, 0
        want.changed = bool(want.told)
        if not count and want.changed:  # not even fewer is taken: nothing more can be said about it
            want.told, want.changed = {}, False
        return AllocationUpdate(refused=(RefusedRequest(key=key, count=count, reason=reason),) if count else ())

    def forgotten(self) -> None:
        """There is a new ResourceManager, which knows nothing: the next request says everything again."""
        self._flight = None
        self._response_id = 0
        self._told_excluded = frozenset()
        self._unsent = dict(self._releasing)
        self._singly.clear()
        for want in self._wants.values():
            want.told, want.sought = {}, 0
            want.changed = want.outstanding > 0

    # -- inside

    def _new_flight(self) -> _Flight:
        changed = [key for key, want in self._wants.items() if want.changed]
        if self._singly:
            changed = [key for key in changed if key in self._singly][:1]
        asks: list[ResourceRequest] = []
        requests: list[SchedulingRequest] = []
        carried = {}
        for key in changed:
            want = self._wants[key]
            want.changed = False
            known = want.sought if self._is_adding_up(want) else 0
            entries = carried[key] = _entries(key, want.ask, max(0, want.outstanding - known))
            gone = [_none_of(told) for place, told in want.told.items() if place not in entries]
            for entry in [*gone, *entries.values()]:
                if isinstance(entry, ResourceRequest):
                    asks.append(entry)
                else:
                    requests.append(entry)
        excluded = frozenset(self._excluded)
        additions = tuple(sorted(excluded - self._told_excluded))
        removals = tuple(sorted(self._told_excluded - excluded))
        request = AllocateRequest(
            asks=tuple(asks),
            scheduling_requests=tuple(requests),
            releases=tuple(self._unsent),
            blacklist=Blacklist(additions=additions, removals=removals) if additions or removals else None,
            response_id=self._response_id,
            progress=self.progress,
            tracking_url=self._tracking_url,
        )
        return _Flight(request=request, carried=carried, excluded=excluded)

    def _settle(self, flight: _Flight) -> None:
        """What the ResourceManager knows, now that it has answered."""
        self._told_excluded = flight.excluded
        for container in flight.request.releases:
            self._unsent.pop(container, None)
        if self._tracking_url == flight.request.tracking_url:
            self._tracking_url = None
        for key, entries in flight.carried.items():
            self._singly.discard(key)
            want = self._wants[key]
            known = want.sought if self._is_adding_up(want) else 0
            want.sought = known + max(map(_count, entries.values()))
            want.told = {place: entry for place, entry in entries.items() if _count(entry)}

    def _take_granted(
        self, containers: Iterable[Container], flight: _Flight
    ) -> tuple[tuple[Container, ...], tuple[Container, ...]]:
        granted: list[Container] = []
        surplus: list[Container] = []
        for container in containers:
            if container.id is None or container.id in self._granted:
                continue
            self._granted.add(container.id)
            want = self._wants.get(container.allocation_request_id)
            if want is not None:
                want.sought = max(0, want.sought - 1)
                crosses = container.allocation_request_id in flight.carried or not want.outstanding
                if crosses and not self._is_adding_up(want):
                    want.changed = True  # the total that was sent last did not yet know of this one
            if want is None or not want.outstanding:
                surplus.append(container)
                self._returned.add(container.id)
                self.release(container.id)
            else:
                want.outstanding -= 1
                granted.append(container)
        return tuple(granted), tuple(surplus)

    def _is_adding_up(self, want: _Want) -> bool:
        """Whether the ResourceManager takes what it is told of a key for an addition, and not for a total."""
        return self._adds_up and want.ask.is_scheduling_request

    def _take_completed(self, statuses: Iterable[ContainerStatus]) -> tuple[ContainerStatus, ...]:
        new: list[ContainerStatus] = []
        for status in statuses:
            if status.id is None or status.id in self._ended:
                continue
            self._ended.add(status.id)
            self._releasing.pop(status.id, None)
            self._unsent.pop(status.id, None)
            if status.id not in self._returned:
                new.append(status)
        return tuple(new)

    def _take_rejected(self, response: AllocateResponse) -> tuple[Rejected, ...]:
        """Both reasons that there are may pass: no node where it fits, or the scheduler did not agree to the node."""
        rejected: dict[int, Rejected] = {}
        for each in response.rejected:
            key, sizing = each.request.allocation_request_id, each.request.sizing
            want = self._wants.get(key)
            if want is None:
                continue
            number = (sizing.count if sizing else None) or 1
            want.sought = max(0, want.sought - number)
            number += rejected[key].count if key in rejected else 0
            count = min(number, want.outstanding - want.sought)
            if count > 0:  # else it was wanted no more when it was rejected
                reason = each.reason.name.lower().replace("_", " ")
                rejected[key] = Rejected(key=key, count=count, reason=reason)
        return tuple(rejected.values())


def _entries(key: int, ask: ContainerRequest, count: int) -> dict[tuple[str, int], ResourceRequest | SchedulingRequest]:
    priority = Priority(priority=ask.priority)
    if ask.is_scheduling_request:
        request = SchedulingRequest(
            allocation_request_id=key,
            priority=priority,
            # Said outright: the default counts as nothing said, and is refused.
            execution_type=ExecutionTypeRequest(execution_type=ExecutionType.GUARANTEED, enforce=True),
            allocation_tags=ask.tags,
            sizing=ResourceSizing(count=count, resources=ask.resource),
            constraint=ask.constraint,
        )
        return {(ANYWHERE, ask.priority): request}
    racks = ask.racks or ((DEFAULT_RACK,) if ask.hosts else ())
    entries: dict[tuple[str, int], ResourceRequest | SchedulingRequest] = {}
    for place in (*ask.hosts, *racks, ANYWHERE):
        entries[place, ask.priority] = ResourceRequest(
            priority=priority,
            resource_name=place,
            capability=ask.resource,
            num_containers=count,
            relax_locality=not (ask.strict and place not in ask.hosts),
            # A label stands with `*` only; the ResourceManager refuses it elsewhere.
            node_label_expression=ask.label if place == ANYWHERE else None,
            allocation_request_id=key,
        )
    return entries


def _none_of(entry: ResourceRequest | SchedulingRequest) -> ResourceRequest | SchedulingRequest:
    if isinstance(entry, ResourceRequest):
        return replace(entry, num_containers=0)
    resources = entry.sizing.resources if entry.sizing else None
    return replace(entry, sizing=ResourceSizing(count=0, resources=resources))


def _count(entry: ResourceRequest | SchedulingRequest) -> int:
    if isinstance(entry, ResourceRequest):
        return entry.num_containers or 0
    return (entry.sizing.count or 0) if entry.sizing else 0
