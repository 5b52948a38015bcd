"""The table of an AM's outstanding container requests, as sent to the ResourceManager; no I/O, no clock.

    table = AskTable()
    table.want(1, 4, ContainerRequest(resource=Resource(memory=512, vcores=1), hosts=("node-1",)))
    response = ...send(table.build_request())
    news = table.on_response(response)       # or table.on_refused(...), or table.on_forgotten()

**Protocol.** A request states the number of outstanding containers for a priority, a key (`allocation_request_id`) and
a location. The ResourceManager counts down when it grants, and so does this table. A host takes three entries: host,
rack, and `*` with the real total; a host entry alone is never served, `*` alone only once per node and heartbeat.

**Lost responses.** A request is repeated unchanged until it is answered: for a known response id the ResourceManager
repeats its response without reading the rest.

**Grants that cross a request.** A total that was sent before a grant arrived is too high by that grant; the next
request corrects it. Containers granted in excess until then are released at once.

**Rejections.** Scheduling requests are totals as well, unless the ResourceManager's constraint handler is
`placement-processor`. That one adds requests up, and rejects those that it cannot place after a few retries. They
may fit later, so they stay outstanding and are reported as `AllocationUpdate.rejected`; `repeat_rejected` repeats only
them.

**A new ResourceManager** does not know requests, releases and excluded hosts: after `on_forgotten()` the next request
contains all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from tony.hadoop.wire.application_master import AllocateRequest, AllocateResponse, Blacklist, Preemption
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
    """The properties of the containers of a key.

    Attributes:
        resource: resource of each container.
        priority: lower numbers are served first.
        hosts: preferred hosts, named as in `NodeReport.id.host`.
        racks: racks of these hosts (`NodeReport.rack`); default `/default-rack`.
        label: node-label expression; None is the queue's default.
        tags: allocation tags, visible to constraints of other requests. Like `constraint` they need a cluster that
            accepts scheduling requests, and exclude `hosts` and `label`.
        constraint: placement constraint, see `tony.hadoop.wire.placement`.
    """

    resource: Resource
    priority: int = 1
    hosts: tuple[str, ...] = ()
    racks: tuple[str, ...] = ()
    label: str | None = None
    tags: tuple[str, ...] = ()
    constraint: PlacementConstraint | None = None

    @property
    def is_scheduling_request(self) -> bool:
        """Return True if it must be sent as a scheduling request."""
        return bool(self.tags) or self.constraint is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclinedRequest:
    """Containers of a key that the ResourceManager did not grant.

    Attributes:
        count: number of these containers.
        reason: message of the ResourceManager.
    """

    key: int
    count: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationUpdate:
    """The content of a ResourceManager response.

    Attributes:
        granted: containers, with the key as `allocation_request_id`. Start or release them within ten minutes.
        completed: containers that ended, each once, including unknown ones of earlier attempts.
        recovered: containers of earlier attempts, reported after a restart of the ResourceManager.
        refused: requests that can never be granted; they have been dropped.
        rejected: requests that cannot be placed now. They are still outstanding, but the ResourceManager has given them
            up: repeat them with `AskTable.repeat_rejected`.
        nodes: nodes whose state changed.
        preempted: containers that will be killed, or will be unless the same amount is released otherwise.
        cluster_nodes: number of nodes, if reported.
    """

    granted: tuple[Container, ...] = ()
    completed: tuple[ContainerStatus, ...] = ()
    recovered: tuple[Container, ...] = ()
    refused: tuple[DeclinedRequest, ...] = ()
    rejected: tuple[DeclinedRequest, ...] = ()
    nodes: tuple[NodeReport, ...] = ()
    preempted: tuple[ContainerId, ...] = ()
    cluster_nodes: int | None = None

    @property
    def is_any(self) -> bool:
        """Return True if there is any event; the node count does not matter."""
        return bool(
            self.granted
            or self.completed
            or self.recovered
            or self.refused
            or self.rejected
            or self.nodes
            or self.preempted
        )


@dataclass(slots=True, kw_only=True)
class _RequestState:
    """The state of a key.

    Attributes:
        changed: whether the total must be sent.
        sought: number that the ResourceManager still tries to place; less than `outstanding` after rejections.
        sent: entries that the ResourceManager may still hold: location and priority -> entry.
    """

    ask: ContainerRequest
    outstanding: int
    changed: bool = True
    sought: int = 0
    sent: dict[tuple[str, int], ResourceRequest | SchedulingRequest]


@dataclass(slots=True, kw_only=True)
class _Flight:
    """A request without a response so far."""

    request: AllocateRequest
    carried: dict[int, dict[tuple[str, int], ResourceRequest | SchedulingRequest]]
    excluded: frozenset[str]


class AskTable:
    """All outstanding requests, releases and exclusions."""

    def __init__(self) -> None:
        self._requests: dict[int, _RequestState] = {}
        self._excluded: set[str] = set()
        self._sent_excluded: frozenset[str] = frozenset()
        #: Released, but not yet reported as completed.
        self._releasing: dict[ContainerId, None] = {}
        self._unsent: dict[ContainerId, None] = {}
        self._granted: set[ContainerId] = set()
        self._ended: set[ContainerId] = set()
        self._returned: set[ContainerId] = set()
        self._response_id = 0
        self._flight: _Flight | None = None
        #: The ResourceManager adds scheduling requests up, instead of reading them as totals.
        self._adds_up = False
        #: After a refusal: send one key at a time, to find the refused one.
        self._singly: set[int] = set()

    # -- requests of the caller

    def want(self, key: int, total: int, ask: ContainerRequest | None = None) -> None:
        """Set the number of outstanding containers of a key, not counting those already granted.

        Args:
            key: any non-negative number; one for each kind of container.
            total: number of containers; 0 to cancel.
            ask: properties of the containers; optional when the key is known.

        Raises:
            ValueError: a negative number, or an unknown key without `ask`.
        """
        request = self._requests.get(key)
        if ask is None:
            ask = request.ask if request else None
        if key < 0 or total < 0 or ask is None:
            raise ValueError(f"key {key}, {total} containers, {ask}: must not be negative; a new key needs a request")
        if ask.is_scheduling_request and (ask.hosts or ask.racks or ask.label is not None):
            raise ValueError(f"key {key}: a request with tags or a constraint cannot have hosts, racks or a label")
        if request is None:
            if total:
                self._requests[key] = _RequestState(ask=ask, outstanding=total, sent={})
        elif (request.outstanding, request.ask) != (total, ask):
            request.ask, request.outstanding, request.changed = ask, total, True

    def count_outstanding(self, key: int | None = None) -> int:
        """Return the number of outstanding containers, of one key or of all."""
        if key is None:
            return sum(request.outstanding for request in self._requests.values())
        return self._requests[key].outstanding if key in self._requests else 0

    def repeat_rejected(self, key: int) -> None:
        """Repeat the rejected part of a key's request."""
        request = self._requests.get(key)
        if request is not None and request.outstanding > request.sought:
            request.changed = True

    def release(self, container: ContainerId) -> None:
        """Release a container, started or not; its end will be reported."""
        if container not in self._ended and container not in self._releasing:
            self._releasing[container] = None
            self._unsent[container] = None

    def exclude(self, host: str) -> None:
        """Exclude a host from new containers."""
        self._excluded.add(host)

    def include(self, host: str) -> None:
        """Undo the exclusion of a host."""
        self._excluded.discard(host)

    def adopt(self, containers: Iterable[Container]) -> tuple[Container, ...]:
        """Add containers of earlier attempts; return those that were unknown."""
        new = tuple(
            container for container in containers if container.id is not None and container.id not in self._granted
        )
        self._granted.update(each.id for each in new if each.id is not None)
        return new

    @property
    def is_changed(self) -> bool:
        """Return True if the next request contains any change."""
        return bool(
            self._unsent
            or self._excluded != self._sent_excluded
            or any(request.changed for request in self._requests.values())
        )

    @property
    def is_asking(self) -> bool:
        """Return True if the unanswered request asks for containers, and so may be the cause of an error."""
        return bool(self._flight and self._flight.carried)

    # -- requests and responses

    def build_request(self) -> AllocateRequest:
        """Return the next request; the same one until it is answered."""
        if self._flight is None:
            self._flight = self._build_flight()
        return self._flight.request

    def on_response(self, response: AllocateResponse) -> AllocationUpdate:
        """Process the response to the last request."""
        flight, self._flight = self._flight, None
        if flight is None:
            raise ValueError("a response without a request")
        self._response_id = response.response_id if response.response_id is not None else self._response_id + 1
        self._settle(flight)
        self._adds_up = self._adds_up or bool(response.rejected)  # only placement-processor rejects
        preemption = response.preemption or Preemption()
        preempted = [part.containers for part in (preemption.strict, preemption.negotiable) if part is not None]
        return AllocationUpdate(
            granted=self._take_granted(response.allocated, flight),
            completed=self._take_completed(response.completed),
            recovered=self.adopt(response.previous_containers),
            rejected=self._take_rejected(response),
            nodes=response.updated_nodes,
            preempted=tuple(each.id for each in chain(*preempted) if each.id is not None),
            cluster_nodes=response.num_cluster_nodes,
        )

    def on_refused(self, reason: str) -> AllocationUpdate:
        """Process the refusal of the last request, because a part of it can never be granted.

        A single key is dropped; several keys are sent one at a time until the refused one is found.
        """
        flight, self._flight = self._flight, None
        carried = list(flight.carried) if flight else []
        for key in carried:
            self._requests[key].changed = True
        if len(carried) != 1:
            self._singly = set(carried)
            return AllocationUpdate()
        key = carried[0]
        self._singly.discard(key)
        request = self._requests[key]
        count, request.outstanding = request.outstanding, 0
        request.changed = bool(request.sent)
        if not count and request.changed:  # even a lower total is refused: drop the key
            request.sent, request.changed = {}, False
        return AllocationUpdate(refused=(DeclinedRequest(key=key, count=count, reason=reason),) if count else ())

    def on_forgotten(self) -> None:
        """Start over with a ResourceManager that knows nothing: the next request contains everything."""
        self._flight = None
        self._response_id = 0
        self._sent_excluded = frozenset()
        self._unsent = dict(self._releasing)
        self._singly.clear()
        for request in self._requests.values():
            request.sent, request.sought = {}, 0
            request.changed = request.outstanding > 0

    # -- internals

    def _build_flight(self) -> _Flight:
        changed = [key for key, request in self._requests.items() if request.changed]
        if self._singly:
            changed = [key for key in changed if key in self._singly][:1]
        asks: list[ResourceRequest] = []
        requests: list[SchedulingRequest] = []
        carried = {}
        for key in changed:
            request = self._requests[key]
            request.changed = False
            known = request.sought if self._is_adding_up(request) else 0
            entries = carried[key] = _entries(key, request.ask, max(0, request.outstanding - known))
            withdrawn = [_zero_count(sent) for place, sent in request.sent.items() if place not in entries]
            for entry in [*withdrawn, *entries.values()]:
                if isinstance(entry, ResourceRequest):
                    asks.append(entry)
                else:
                    requests.append(entry)
        excluded = frozenset(self._excluded)
        additions = tuple(sorted(excluded - self._sent_excluded))
        removals = tuple(sorted(self._sent_excluded - excluded))
        allocate = AllocateRequest(
            asks=tuple(asks),
            scheduling_requests=tuple(requests),
            releases=tuple(self._unsent),
            blacklist=Blacklist(additions=additions, removals=removals) if additions or removals else None,
            response_id=self._response_id,
        )
        return _Flight(request=allocate, carried=carried, excluded=excluded)

    def _settle(self, flight: _Flight) -> None:
        """Record what the ResourceManager knows after answering a request."""
        self._sent_excluded = flight.excluded
        for container in flight.request.releases:
            self._unsent.pop(container, None)
        for key, entries in flight.carried.items():
            self._singly.discard(key)
            request = self._requests[key]
            known = request.sought if self._is_adding_up(request) else 0
            request.sought = known + max(map(_count, entries.values()))
            request.sent = {place: entry for place, entry in entries.items() if _count(entry)}

    def _take_granted(self, containers: Iterable[Container], flight: _Flight) -> tuple[Container, ...]:
        """Return the granted containers; release those granted in excess."""
        granted: list[Container] = []
        for container in containers:
            if container.id is None or container.id in self._granted:
                continue
            self._granted.add(container.id)
            request = self._requests.get(container.allocation_request_id)
            if request is not None:
                request.sought = max(0, request.sought - 1)
                crosses = container.allocation_request_id in flight.carried or not request.outstanding
                if crosses and not self._is_adding_up(request):
                    request.changed = True  # the last total was sent before this grant was known
            if request is None or not request.outstanding:
                self._returned.add(container.id)
                self.release(container.id)
            else:
                request.outstanding -= 1
                granted.append(container)
        return tuple(granted)

    def _is_adding_up(self, request: _RequestState) -> bool:
        """Return True if the ResourceManager adds a key's requests up, instead of reading them as totals."""
        return self._adds_up and request.ask.is_scheduling_request

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

    def _take_rejected(self, response: AllocateResponse) -> tuple[DeclinedRequest, ...]:
        """Collect rejections. Both reasons may be temporary: no fitting node, or the scheduler declined the node."""
        rejected: dict[int, DeclinedRequest] = {}
        for each in response.rejected:
            key, sizing = each.request.allocation_request_id, each.request.sizing
            request = self._requests.get(key)
            if request is None:
                continue
            number = (sizing.count if sizing else None) or 1
            request.sought = max(0, request.sought - number)
            number += rejected[key].count if key in rejected else 0
            count = min(number, request.outstanding - request.sought)
            if count > 0:  # else it was cancelled before it was rejected
                reason = each.reason.name.lower().replace("_", " ")
                rejected[key] = DeclinedRequest(key=key, count=count, reason=reason)
        return tuple(rejected.values())


def _entries(key: int, ask: ContainerRequest, count: int) -> dict[tuple[str, int], ResourceRequest | SchedulingRequest]:
    priority = Priority(priority=ask.priority)
    if ask.is_scheduling_request:
        request = SchedulingRequest(
            allocation_request_id=key,
            priority=priority,
            # Set explicitly: the default counts as unset, and is refused.
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
            relax_locality=True,
            # A label is valid only with `*`; the ResourceManager refuses it elsewhere.
            node_label_expression=ask.label if place == ANYWHERE else None,
            allocation_request_id=key,
        )
    return entries


def _zero_count(entry: ResourceRequest | SchedulingRequest) -> ResourceRequest | SchedulingRequest:
    if isinstance(entry, ResourceRequest):
        return replace(entry, num_containers=0)
    resources = entry.sizing.resources if entry.sizing else None
    return replace(entry, sizing=ResourceSizing(count=0, resources=resources))


def _count(entry: ResourceRequest | SchedulingRequest) -> int:
    if isinstance(entry, ResourceRequest):
        return entry.num_containers or 0
    return (entry.sizing.count or 0) if entry.sizing else 0
