"""Recovery of a job's containers by a later AM attempt (YARN's keep-containers-across-application-attempts).

The ResourceManager lists running containers when the AM registers; the ends of others come with its first heartbeat
response. A container in neither has ended, too: the ResourceManager does not keep containers that it had not seen
running when their AM died, and reports an end only once. But a restarted ResourceManager learns of a node's containers
when the node re-registers, so then missing ones are waited for. One that appears after the timeout is stopped, since
its work has been reassigned.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from tony.core.events import ContainerEnded, EndConfirmation, Event
from tony.hadoop import ids
from tony.hadoop.errors import HadoopError
from tony.hadoop.wire.yarn_records import Container, ContainerState, ContainerStatus, NodeId
from tony.hadoop.yarn.am_rm_client import MasterClient
from tony.hadoop.yarn.nm_client import NodeClients
from tony.hadoop.yarn.request_table import AllocationUpdate
from tony.schedulers.allocator_interface import KnownContainer
from tony.schedulers.yarn.allocation import exit_reasons
from tony.schedulers.yarn.allocation.container_table import ContainerTable, build_ended_before

#: Poll interval in seconds.
_POLL_SECONDS = 0.02
#: Seconds after which the containers of the last node to re-register have been reported.
_LAST_NODE_SECONDS = 1.5
#: Timeout in seconds for a node's response.
_ANSWER_SECONDS = 2.0
_log = logging.getLogger(__name__)


class ContainerRecovery:
    """Recovery at the start of one AM attempt.

    Args:
        known: containers according to the event log.
        own: the AM's own container.
        usual_nodes: number of nodes when the job was submitted.
        timeout: seconds for which a restarted ResourceManager may still report containers.
        emit: receives later events of containers that were given up.
    """

    def __init__(
        self,
        known: Sequence[KnownContainer],
        containers: ContainerTable,
        master: MasterClient,
        nodes: NodeClients,
        *,
        own: str,
        usual_nodes: int,
        timeout: float,
        emit: Callable[[Event], None],
    ) -> None:
        self._known = {container.id: container for container in known}
        self._missing = dict(self._known)
        self._containers, self._master, self._nodes = containers, master, nodes
        self._own, self._usual_nodes, self._timeout = own, usual_nodes, timeout
        self._emit = emit
        self._given_up: dict[str, KnownContainer] = {}  # set when recovery has finished: their ends are not proven
        self._places: dict[str, NodeId] = {}  # nodes for which we have a token
        self._ends: dict[str, ContainerEnded] = {}
        self._reported_late = False  # the ResourceManager has reported a container late

    def add_running(self, containers: Sequence[Container]) -> None:
        """Take over containers that the ResourceManager reports as running."""
        for container in containers:
            assert container.id is not None
            if container.node is not None and container.node.host:
                self._places[container.node.host] = container.node
            name = ids.format_container(container.id)
            late = self._given_up.pop(name, None)
            known = late or self._missing.pop(name, None)
            if known is None:
                self._containers.stop_unknown(container)
                continue
            self._ends.pop(name, None)
            self._containers.add_recovered(container, known.role, str(known.task or ""))
            if late:
                _log.warning("container %s of %s has reappeared; killing it", name, known.task or "no task")
                self._containers.kill(name, "its node came back after the container was given up")
            else:
                _log.info("recovered %s in %s", known.task or known.role, known.id)

    def on_heartbeat(self, update: AllocationUpdate) -> None:
        """Process a heartbeat response, before the allocator does."""
        if update.recovered:
            self._reported_late = True
            self.add_running(update.recovered)
        for status in update.completed:
            name = ids.format_container(status.id) if status.id else ""
            if self._missing.pop(name, None) is not None:
                self._ends[name] = build_ended_before(name, status)
            elif name in self._given_up and not exit_reasons.is_lost(status):
                del self._given_up[name]
                self._emit(build_ended_before(name, status))

    def find_outcome(self) -> tuple[Sequence[str], Sequence[Event]]:
        """Return containers that are running or whose end is known (by the events); the others ended unseen."""
        found = [name for name in self._known if name not in self._missing or name in self._ends]
        unconfirmed = {name for name, end in self._ends.items() if end.is_unconfirmed}
        self._given_up = {name: self._known[name] for name in (*self._missing, *unconfirmed)}
        self._missing = {}
        return found, tuple(self._ends.values())

    async def wait_settled(self) -> None:
        """Wait until each container is known to run or to have ended, or no more reports are expected."""
        loop = asyncio.get_running_loop()
        answers_before = self._master.answers
        while self._known and self._master.answers == answers_before:
            await asyncio.sleep(_POLL_SECONDS)
        if self._missing and not self._is_restarted():
            await self._query_nodes()
        deadline = loop.time() + self._timeout
        while self._missing and self._is_restarted() and loop.time() < deadline:
            if self._has_all_nodes():
                deadline = min(deadline, loop.time() + _LAST_NODE_SECONDS)
            await asyncio.sleep(_POLL_SECONDS)
        unseen = self._is_restarted() and not self._has_all_nodes()
        for name, known in self._missing.items():
            _log.warning("container %s of %s was not recovered", name, known.task or "no task")
            if unseen:
                self._ends[name] = ContainerEnded(
                    container=name,
                    cause=f"its node {known.host} did not re-register with the restarted ResourceManager",
                    blameless=True,
                    confirmation=EndConfirmation.UNCONFIRMED if known.task else EndConfirmation.ENDED,
                )

    def _is_restarted(self) -> bool:
        """Return True if the ResourceManager has been restarted since it allocated the containers."""
        nodes = self._master.cluster_nodes
        return (
            self._reported_late
            or self._master.is_renewed
            or (nodes is not None and 2 * nodes < self._usual_nodes)
            or any(_parse_epoch(name) < _parse_epoch(self._own) for name in self._missing)
        )

    def _has_all_nodes(self) -> bool:
        """Return True if all nodes have registered."""
        nodes = self._master.cluster_nodes
        return nodes is not None and nodes >= self._usual_nodes > 0

    async def _query_nodes(self) -> None:
        """Ask nodes of running containers about missing ones, to learn of their end sooner, and perhaps why."""
        for known in list(self._missing.values()):
            place, container_id = self._places.get(known.host), ids.parse_container_id(known.id)
            if place is None:
                continue
            try:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    status = (await self._nodes.fetch_statuses(place, [container_id])).get(container_id)
                    if isinstance(status, ContainerStatus) and status.state is not ContainerState.COMPLETE:
                        await self._nodes.stop(place, [container_id])  # the ResourceManager would stop it anyway
                        continue
            except (HadoopError, TimeoutError) as error:
                _log.info("cannot get the status of %s from its node: %s", known.id, error)
                continue
            if isinstance(status, ContainerStatus) and self._missing.pop(known.id, None) is not None:
                self._ends[known.id] = build_ended_before(known.id, status)


def _parse_epoch(container: str) -> int:
    """Return how often the ResourceManager had been started when it allocated the container; `container_e02_...`."""
    part = container.split("_")[1]
    return int(part[1:]) if part.startswith("e") and part[1:].isdigit() else 0
