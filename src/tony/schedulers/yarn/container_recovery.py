"""What is left of a job's containers when its application master begins anew.

The ResourceManager names those that live when we register; those that ended in the gap come with its first answer. One
of which neither is heard has ended, too: the ResourceManager does not keep containers that it had not seen run when
their master died, and tells an end once only. But a ResourceManager that was restarted itself knows of a node's
containers when the node has come back to it; so those that are missing are waited for then. One that comes later than
we wait is ended, for others do its work.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from tony.core.events import ContainerEnded, Event
from tony.hadoop import ids
from tony.hadoop.ipc.errors import HadoopError
from tony.hadoop.wire.yarn_records import Container, ContainerState, ContainerStatus, NodeId
from tony.hadoop.yarn.am_rm_client import MasterClient
from tony.hadoop.yarn.nm_client import NodeClients
from tony.hadoop.yarn.request_table import AllocationUpdate
from tony.schedulers.interface import KnownContainer
from tony.schedulers.yarn import exit_reasons
from tony.schedulers.yarn.container_table import Containers, ended_before

#: Seconds between two looks whether something has come.
_LOOK = 0.02
#: Seconds after which what the last node brought has been told.
_LAST_NODE = 1.5
#: Seconds for a node's answer.
_ANSWER = 2.0
_log = logging.getLogger(__name__)


class Recovery:
    """One attempt's beginning.

    Args:
        known: what the event log says.
        own: our own container.
        usual_nodes: how many nodes there were when the job was submitted.
        patience: seconds for which containers may still be told of by a ResourceManager that was restarted.
        end: has a container ended that is unknown to the log.
        tell: takes what is heard later of those that were given up.
    """

    def __init__(
        self,
        known: Sequence[KnownContainer],
        containers: Containers,
        master: MasterClient,
        nodes: NodeClients,
        *,
        own: str,
        usual_nodes: int,
        patience: float,
        end: Callable[[Container], None],
        tell: Callable[[Event], None],
    ) -> None:
        self._known = {each.id: each for each in known}
        self._missing = dict(self._known)
        self._containers, self._master, self._nodes = containers, master, nodes
        self._own, self._usual_nodes, self._patience, self._end = own, usual_nodes, patience, end
        self._tell = tell
        self._given_up: dict[str, KnownContainer] = {}  # once we begin: nobody has proven their ends
        self._places: dict[str, NodeId] = {}  # nodes of which we have a token
        self._ends: dict[str, ContainerEnded] = {}
        self._is_behind = False  # the ResourceManager has told of one later

    def found(self, containers: Sequence[Container]) -> None:
        """These live, says the ResourceManager."""
        for container in containers:
            assert container.id is not None
            if container.node is not None and container.node.host:
                self._places[container.node.host] = container.node
            name = ids.container_text(container.id)
            late = self._given_up.pop(name, None)
            known = late or self._missing.pop(name, None)
            if known is None:
                self._end(container)
                continue
            self._ends.pop(name, None)
            self._containers.adopt(container, known.role, str(known.task or ""))
            if late:
                _log.warning("%s, which had %s, is there after all", name, known.task or "no task")
                self._containers.kill(name, "its node came back after it was given up")
            else:
                _log.info("%s runs on in %s", known.task or known.role, known.id)

    def heard(self, news: AllocationUpdate) -> None:
        """What a heartbeat has brought, before anybody else sees it."""
        if news.recovered:
            self._is_behind = True
            self.found(news.recovered)
        for status in news.completed:
            name = ids.container_text(status.id) if status.id else ""
            if self._missing.pop(name, None) is not None:
                self._ends[name] = ended_before(name, status)
            elif name in self._given_up and not exit_reasons.is_lost(status):
                del self._given_up[name]
                self._tell(ended_before(name, status))

    def outcome(self) -> tuple[Sequence[str], Sequence[Event]]:
        """Those that live, or whose end is told: by the events. The others have ended, and nobody knows how."""
        found = [name for name in self._known if name not in self._missing or name in self._ends]
        presumed = {name for name, end in self._ends.items() if end.presumed}
        self._given_up = {name: self._known[name] for name in (*self._missing, *presumed)}
        self._missing = {}
        return found, tuple(self._ends.values())

    async def settle(self) -> None:
        """Waits until it is known of each what became of it, or nobody will tell any more."""
        loop = asyncio.get_running_loop()
        began = self._master.answers
        while self._known and self._master.answers == began:
            await asyncio.sleep(_LOOK)
        if self._missing and not self._is_restarted():
            await self._ask_the_nodes()
        give_up = loop.time() + self._patience
        while self._missing and self._is_restarted() and loop.time() < give_up:
            if self._is_whole():
                give_up = min(give_up, loop.time() + _LAST_NODE)
            await asyncio.sleep(_LOOK)
        unseen = self._is_restarted() and not self._is_whole()
        for name, known in self._missing.items():
            _log.warning("%s, which had %s, is not there any more", name, known.task or "no task")
            if unseen:
                self._ends[name] = ContainerEnded(
                    container=name,
                    cause=f"its node {known.host} has not come back to the ResourceManager",
                    blameless=True,
                    presumed=known.task is not None,
                )

    def _is_restarted(self) -> bool:
        """Whether the ResourceManager is another one than that which gave the containers."""
        nodes = self._master.cluster_nodes
        return (
            self._is_behind
            or self._master.is_renewed
            or (nodes is not None and 2 * nodes < self._usual_nodes)
            or any(_epoch(name) < _epoch(self._own) for name in self._missing)
        )

    def _is_whole(self) -> bool:
        """Whether all nodes have come to it."""
        nodes = self._master.cluster_nodes
        return nodes is not None and nodes >= self._usual_nodes > 0

    async def _ask_the_nodes(self) -> None:
        """Those that are missing where others live: their end is certain sooner, and perhaps its cause."""
        for known in list(self._missing.values()):
            place, container_id = self._places.get(known.host), ids.container_id(known.id)
            if place is None:
                continue
            try:
                async with asyncio.timeout(_ANSWER):
                    status = (await self._nodes.statuses(place, [container_id])).get(container_id)
                    if isinstance(status, ContainerStatus) and status.state is not ContainerState.COMPLETE:
                        await self._nodes.stop(place, [container_id])  # it is about to be ended in any case
                        continue
            except (HadoopError, TimeoutError) as error:
                _log.info("%s: its node does not say whether it has ended: %s", known.id, error)
                continue
            if isinstance(status, ContainerStatus) and self._missing.pop(known.id, None) is not None:
                self._ends[known.id] = ended_before(known.id, status)


def _epoch(container: str) -> int:
    """How often the ResourceManager had been started when it gave the container; `container_e02_...`."""
    part = container.split("_")[1]
    return int(part[1:]) if part.startswith("e") and part[1:].isdigit() else 0
