"""A fake ResourceManager scheduler, as an AM sees it.

    manager = FakeResourceManager(nodes=("node-1", "node-2"))
    async with manager.server:
        ...an AM registers with manager.login and allocates...
        manager.complete(container_id, 1)

It counts asks as the real one does (totals by priority, key and place; a grant counts down host, rack and `*`), repeats
its last response for a known response id, loses its state on `forget`, and issues a NodeManager token once per node.
It grants containers in each response; with `grants_by_hand`, only in `grant`.
"""

from __future__ import annotations

from typing import Final

from tests.support.hadoop.ipc_server import Auth, FakeIpcServer, FakeRefusalError
from tony.hadoop.ids import format_container
from tony.hadoop.ipc.login import LoginIdentity
from tony.hadoop.tokens import AM_RM, NODE_MANAGER
from tony.hadoop.wire import rpc
from tony.hadoop.wire.application_master import (
    ALLOCATE,
    FINISH,
    REGISTER,
    AllocateRequest,
    AllocateResponse,
    FinishRequest,
    FinishResponse,
    NodeToken,
    Preemption,
    RegisterRequest,
    RegisterResponse,
)
from tony.hadoop.wire.placement import RejectedRequest, RejectionReason, ResourceSizing, SchedulingRequest
from tony.hadoop.wire.proto import replace
from tony.hadoop.wire.rpc import Token
from tony.hadoop.wire.yarn_records import (
    ApplicationAttemptId,
    ApplicationId,
    Container,
    ContainerId,
    ContainerState,
    ContainerStatus,
    NodeId,
    NodeReport,
    Priority,
    Resource,
    ResourceRequest,
    ResourceTypeInfo,
)

YARN: Final = "org.apache.hadoop.yarn.exceptions."
APPLICATION: Final = ApplicationId(number=1, cluster_timestamp=1410901177871)
ATTEMPT: Final = ApplicationAttemptId(application=APPLICATION, number=1)
RACK: Final = "/default-rack"


class FakeResourceManager:
    """The ResourceManager of one AM attempt.

    Args:
        nodes: ids of the nodes on which it grants, in turn.
        maximum: MiB of the largest container; larger asks are refused.
        places: None: scheduling requests are totals, and wait. A number of places: requests add up, and those beyond it
            are rejected, as by the handler `placement-processor`.
        grants_by_hand: whether only `grant` grants.

    Attributes:
        server: the port; its `order` injects faults.
        asks: outstanding asks: (priority, key) -> place -> count.
        excluded: hosts on which nothing is granted.
        released: the released containers.
        live: containers that were granted and have not ended.
        registration: the last accepted registration; final: the final request of the AM.
        previous: containers of earlier AM attempts, reported at the registration.
        tokens: valid tokens of AMs: identifier -> password.
        node_tokens: issued tokens of nodes, likewise; pass it to fake NodeManagers.
    """

    def __init__(
        self,
        *,
        nodes: tuple[NodeId, ...] = (NodeId(host="node-1", port=1),),
        maximum: int = 8192,
        places: int | None = None,
        grants_by_hand: bool = False,
    ) -> None:
        self.nodes, self.maximum = nodes, maximum
        self.places, self.grants_by_hand = places, grants_by_hand
        self.tokens: dict[bytes, bytes] = {}
        self.node_tokens: dict[bytes, bytes] = {}
        self.server = FakeIpcServer(auths=(Auth.TOKEN,), tokens=self.tokens)
        self.server.on(REGISTER, lambda request, call: self._register(request))
        self.server.on(ALLOCATE, lambda request, call: self._allocate(request))
        self.server.on(FINISH, lambda request, call: self._finish(request))
        self.asks: dict[tuple[int, int], dict[str, int]] = {}
        self.excluded: set[str] = set()
        self.released: list[ContainerId] = []
        self.live: dict[ContainerId, Container] = {}
        self.final: FinishRequest | None = None
        self.previous: tuple[Container, ...] = ()
        self.registration: RegisterRequest | None = None
        self.is_registered = False
        self.sizes: dict[tuple[int, int], Resource] = {}
        self._tags: dict[tuple[int, int], tuple[str, ...]] = {}
        self._rolls = 0
        self.token = self._new_token()
        self._response_id = 0
        self._last: AllocateResponse | None = None
        self._sequence = 1
        self._epoch = 0
        self._known_nodes: set[NodeId] = set()
        self._finishes = 0
        self._turn = 0
        self._granted: list[Container] = []
        self._completed: list[ContainerStatus] = []
        self._rejected: list[RejectedRequest] = []
        self._updated: list[NodeReport] = []
        self._preemption: Preemption | None = None
        self._recovered: tuple[Container, ...] = ()
        self._rolled: rpc.Token | None = None

    @property
    def login(self) -> LoginIdentity:
        """The login of the AM."""
        return LoginIdentity(token=self.token)

    # -- for tests

    def grant(self, key: int, count: int = 1) -> list[Container]:
        """Grant containers of a key now, requested or not; the next response reports them."""
        granted = []
        for _ in range(count):
            at = next((at for at in self.asks if at[1] == key), (1, key))
            granted.append(self._grant(at, self._next_node()))
        return granted

    def complete(self, container: ContainerId, exit_status: int = 0, diagnostics: str = "") -> None:
        """End a container."""
        if self.live.pop(container, None) is not None:
            self._completed.append(
                ContainerStatus(
                    id=container, state=ContainerState.COMPLETE, exit_status=exit_status, diagnostics=diagnostics
                )
            )

    def tell_again(self, status: ContainerStatus) -> None:
        """Report the end of a container again, as may happen after a restart."""
        self._completed.append(status)

    def update(self, report: NodeReport) -> None:
        """Report a changed node in the next response."""
        self._updated.append(report)

    def preempt(self, preemption: Preemption) -> None:
        """Report a preemption in the next response."""
        self._preemption = preemption

    def recover(self, *containers: Container) -> None:
        """Report containers of earlier AM attempts in the next response."""
        self._recovered = containers

    def forget(self) -> None:
        """Lose registration and asks, as in a restart; running containers keep running.

        Ends told in the last answer are repeated: NodeManagers repeat them until the AM's next heartbeat confirms.
        """
        if self._last is not None:
            self._completed[:0] = self._last.completed
        self.is_registered = False
        self._epoch += 1
        self._sequence = 1
        self._response_id, self._last = 0, None
        self._granted.clear()
        for cleared in (self.asks, self.excluded, self.sizes, self._known_nodes):
            cleared.clear()

    def roll_token(self, *, keep_old: bool = True) -> Token:
        """Send a new token with the next response; `keep_old`: the old one stays valid for new connections."""
        old = self.token.identifier
        self.token = self._new_token()
        self._rolled = self.token
        if not keep_old:
            del self.tokens[old]
        return self.token

    def answer(self, request: AllocateRequest) -> AllocateResponse:
        """Handle a heartbeat without RPC; may raise `FakeRefusalError`."""
        return self._allocate(request)

    def register(self, request: RegisterRequest) -> RegisterResponse:
        """Handle a registration without RPC; may raise `FakeRefusalError`."""
        return self._register(request)

    def outstanding(self, key: int) -> int:
        """Return the number of outstanding containers of a key."""
        return sum(places.get("*", 0) for (_, each), places in self.asks.items() if each == key)

    # -- the protocol

    def _register(self, request: RegisterRequest) -> RegisterResponse:
        if self.is_registered:
            raise FakeRefusalError(
                f"{YARN}InvalidApplicationMasterRequestException", "Application Master is already registered"
            )
        self.registration, self.is_registered = request, True
        self._response_id, self._last = 0, None
        nodes = {each.node for each in self.previous if each.node is not None}
        self._known_nodes |= nodes
        return RegisterResponse(
            queue="default",
            previous_containers=self.previous,
            previous_node_tokens=tuple(self._node_token(node) for node in sorted(nodes, key=str)),
            resource_types=(ResourceTypeInfo(name="memory-mb", units="Mi"), ResourceTypeInfo(name="vcores", units="")),
        )

    def _require_registered(self) -> None:
        if not self.is_registered:
            raise FakeRefusalError(
                f"{YARN}ApplicationMasterNotRegisteredException", "AM is not registered, should re-register"
            )

    def _allocate(self, request: AllocateRequest) -> AllocateResponse:
        self._require_registered()
        if self._last is not None and request.response_id == self._response_id - 1:
            return self._last
        if request.response_id != self._response_id:
            raise FakeRefusalError(
                f"{YARN}InvalidApplicationMasterRequestException",
                f"Invalid responseId in AllocateRequest, expect responseId to be: {self._response_id}, "
                f"but get {request.response_id}",
            )
        self._check(request)
        self._take(request)
        if not self.grants_by_hand:
            self._grant_all()
        self._response_id += 1
        self._last = self._answer()
        return self._last

    def _check(self, request: AllocateRequest) -> None:
        for wanted in request.scheduling_requests:
            kind = wanted.execution_type
            if kind is None or "execution_type" not in vars(kind):
                raise FakeRefusalError(
                    f"{YARN}YarnException",
                    f"{YARN}SchedulerInvalidResoureRequestException: Exception message:Only GUARANTEED execution type "
                    "is supported.",
                )
        for ask in request.asks:
            memory = (ask.capability.memory or 0) if ask.capability else 0
            if memory > self.maximum and ask.num_containers:
                raise FakeRefusalError(
                    f"{YARN}InvalidResourceRequestException",
                    f"Invalid resource request! Cannot allocate containers as requested resource is greater than "
                    f"maximum allowed allocation. Requested memory {memory}, maximum {self.maximum}",
                )
            if ask.node_label_expression is not None and ask.resource_name != "*":
                raise FakeRefusalError(f"{YARN}InvalidLabelResourceRequestException", "label with a host or a rack")

    def _take(self, request: AllocateRequest) -> None:
        for ask in request.asks:
            self._take_ask(ask)
        for wanted in request.scheduling_requests:
            self._take_wanted(wanted)
        if request.blacklist is not None:
            self.excluded |= set(request.blacklist.additions)
            self.excluded -= set(request.blacklist.removals)
        for container in request.releases:
            self.released.append(container)
            self.complete(container, -100, f"Container {format_container(container)} released by its master")

    def _take_ask(self, ask: ResourceRequest) -> None:
        at = (ask.priority.priority or 0 if ask.priority else 0, ask.allocation_request_id)
        self.asks.setdefault(at, {})[ask.resource_name or ""] = ask.num_containers or 0
        self.sizes[at] = ask.capability or Resource()

    def _take_wanted(self, wanted: SchedulingRequest) -> None:
        at = (wanted.priority.priority or 0 if wanted.priority else 0, wanted.allocation_request_id)
        self.sizes[at] = (wanted.sizing.resources if wanted.sizing else None) or Resource()
        self._tags[at] = wanted.allocation_tags
        count = (wanted.sizing.count or 0) if wanted.sizing else 0
        if self.places is None:
            self.asks.setdefault(at, {})["*"] = count
            return
        fits = min(count, self.places)
        self.places -= fits
        known = self.asks.setdefault(at, {})
        known["*"] = known.get("*", 0) + fits
        if count > fits:
            left = replace(wanted, sizing=ResourceSizing(count=count - fits, resources=self.sizes[at]))
            self._rejected.append(RejectedRequest(reason=RejectionReason.COULD_NOT_PLACE_ON_NODE, request=left))

    def _answer(self) -> AllocateResponse:
        granted, self._granted = tuple(self._granted), []
        completed, self._completed = tuple(self._completed), []
        rejected, self._rejected = tuple(self._rejected), []
        updated, self._updated = tuple(self._updated), []
        recovered, self._recovered = self._recovered, ()
        rolled, self._rolled = self._rolled, None
        preemption, self._preemption = self._preemption, None
        new = {each.node: None for each in (*granted, *recovered) if each.node not in self._known_nodes}
        self._known_nodes.update(node for node in new if node is not None)
        return AllocateResponse(
            response_id=self._response_id,
            allocated=granted,
            completed=completed,
            updated_nodes=updated,
            num_cluster_nodes=len(self.nodes),
            preemption=preemption,
            node_tokens=tuple(self._node_token(node) for node in new if node is not None),
            am_rm_token=rolled,
            previous_containers=recovered,
            rejected=rejected,
        )

    def _finish(self, request: FinishRequest) -> FinishResponse:
        if self.final is None:
            self._require_registered()
        self.final = request
        self._finishes += 1
        return FinishResponse(unregistered=self._finishes > 2)

    # -- granting

    def _grant_all(self) -> None:
        for at, places in self.asks.items():
            while places.get("*", 0) > 0:
                node = self._place(places)
                if node is None:
                    break
                self._grant(at, node)

    def _place(self, places: dict[str, int]) -> NodeId | None:
        """Return a requested node if it is allowed, else any allowed node."""
        allowed = [node for node in self.nodes if node.host not in self.excluded]
        named = [node for node in allowed if places.get(node.host or "", 0) > 0]
        return next(iter(named or allowed), None)

    def _next_node(self) -> NodeId:
        self._turn += 1
        return self.nodes[self._turn % len(self.nodes)]

    def _grant(self, at: tuple[int, int], node: NodeId) -> Container:
        places = self.asks.get(at, {})
        for place in (node.host or "", RACK, "*"):
            if places.get(place, 0) > 0:
                places[place] -= 1
        self._sequence += 1
        identity = ContainerId(attempt=ATTEMPT, number=self._epoch << 40 | self._sequence)
        container = Container(
            id=identity,
            node=node,
            resource=self.sizes.get(at, Resource()),
            priority=Priority(priority=at[0]),
            token=rpc.Token(
                identifier=format_container(identity).encode(), password=b"granted", kind="ContainerToken", service=""
            ),
            allocation_request_id=at[1],
            allocation_tags=self._tags.get(at, ()),
        )
        self.live[identity] = container
        self._granted.append(container)
        return container

    # -- tokens

    def _new_token(self) -> Token:
        self._rolls += 1
        token = Token(
            identifier=b"master %d" % self._rolls, password=b"secret %d" % self._rolls, kind=AM_RM, service=""
        )
        self.tokens[token.identifier] = token.password
        return token

    def node_token(self, node: NodeId) -> Token:
        """Return the token that a fake NodeManager accepts."""
        identifier = f"node {node}".encode()
        return Token(
            identifier=identifier,
            password=self.node_tokens.setdefault(identifier, b"for " + identifier),
            kind=NODE_MANAGER,
            service=str(node),
        )

    def _node_token(self, node: NodeId) -> NodeToken:
        return NodeToken(node=node, token=self.node_token(node))
