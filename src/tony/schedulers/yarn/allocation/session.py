"""An AM attempt that is registered with the ResourceManager: its heartbeat, its requests and its containers.

The heartbeat runs in a task of its own. Its results go to `outstanding_requests`, which counts open requests, and to
`container_table`, which tracks each container until its end.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from tony.core.events import Event, Excluded, KillRequested
from tony.errors import AttemptSupersededError, SchedulerLostError
from tony.hadoop import ids
from tony.hadoop.authentication import list_protections
from tony.hadoop.errors import HadoopError
from tony.hadoop.wire.application_master import RegisterResponse
from tony.hadoop.wire.yarn_records import Container, ContainerLaunchContext
from tony.hadoop.yarn.am_rm_client import AttemptEndedError, MasterClient
from tony.hadoop.yarn.nm_client import NodeClients
from tony.hadoop.yarn.request_table import AllocationUpdate
from tony.model.actor import Actor, ActorKind
from tony.schedulers.allocator_interface import KnownContainer, Sink
from tony.schedulers.shipping import OWN_PYTHON
from tony.schedulers.yarn.allocation.am_attempt import AmAttempt, find_termination_reason
from tony.schedulers.yarn.allocation.container_recovery import ContainerRecovery
from tony.schedulers.yarn.allocation.container_table import ContainerTable
from tony.schedulers.yarn.allocation.node_blacklist import NodeBlacklist
from tony.schedulers.yarn.allocation.nodes_without_python import NodesWithoutPython
from tony.schedulers.yarn.allocation.outstanding_requests import OutstandingRequests, build_container_request
from tony.schedulers.yarn.placement_constraints import find_placed
from tony.schedulers.yarn.settings import ENVIRONMENT

#: Seconds for nodes to re-register with a restarted ResourceManager, besides two of their retry intervals.
_NODES_RETURN_SECONDS = 3.0
#: Poll interval in seconds for being the current AM attempt again.
_POLL_SECONDS = 0.05
_log = logging.getLogger(__name__)


class YarnSession:
    """One registered AM attempt. The heartbeat of the first one starts at once, of a later one with `recover`.

    Args:
        master: the registered client; closed by the caller.
        sink: receives events, until `close`.
        is_current: returns True if certainly no later AM attempt has been started yet.

    Attributes:
        is_ended: YARN has ended the application: no other AM attempt follows.
    """

    def __init__(
        self,
        attempt: AmAttempt,
        master: MasterClient,
        registration: RegisterResponse,
        sink: Sink,
        is_current: Callable[[], bool],
    ) -> None:
        self._attempt, self._master, self._registration = attempt, master, registration
        self._sink, self._is_current = sink, is_current
        self.is_ended = self._is_closed = False
        payload, settings = attempt.payload, attempt.settings
        # A shipped Python, or that of the job's environment, is the same on every node.
        suitable_nodes = {} if settings.python in (OWN_PYTHON, ENVIRONMENT) else payload.suitable_nodes
        without_python = NodesWithoutPython(suitable_nodes, leave_out=master.exclude, emit=self._emit)
        self._blacklist = NodeBlacklist(
            lambda: master.cluster_nodes or payload.node_count,
            payload.suitable_nodes,
            unfit=lambda: without_python.hosts,
            leave_out=master.exclude,
            take_back=master.include,
            changed=lambda hosts: self._emit(Excluded(hosts=hosts)),
        )
        self._nodes = NodeClients(master.node_tokens, protections=list_protections(attempt.cluster.configuration))
        self._containers = ContainerTable(
            master,
            self._nodes,
            emit=self._emit,
            ended=self._on_container_ended,
            unfit=without_python.add,
            run_when_current=self._run_when_current,
        )
        self._requests = OutstandingRequests(
            {
                role: build_container_request(attempt.spec, role, settings, payload.nodes)
                for role in attempt.spec.effective_roles
            },
            master,
            registration,
            placed=find_placed(attempt.spec, settings),
            queue=settings.queue,
            count=self._containers.count,
            left_out=lambda: without_python.hosts,
            emit=self._emit,
        )
        self._recovery: ContainerRecovery | None = None
        self._delayed_events: list[Event] | None = None  # as long as `recover` runs
        self._postponed: deque[Callable[[], None]] = deque()
        self._postponed_task: asyncio.Task[None] | None = None
        self._heartbeat = self._start_heartbeat() if attempt.number == 1 else None

    # --- the heartbeat ------------------------------------------------------------------------------------------------

    def _start_heartbeat(self) -> asyncio.Task[None]:
        heartbeat = asyncio.get_running_loop().create_task(self._run_heartbeat())
        heartbeat.add_done_callback(lambda _: self._containers.on_rm_lost())
        return heartbeat

    async def _run_heartbeat(self) -> None:
        try:
            await self._master.run(self._on_heartbeat)
        except AttemptEndedError as error:
            _log.error("%s", error)
            why = await find_termination_reason(error, self._attempt)
            self.is_ended = True
            self._emit(KillRequested(actor=Actor(f"YARN: {why}", ActorKind.SCHEDULER), now=True))
        except HadoopError as error:
            if not self._is_current():
                raise AttemptSupersededError(
                    f"the ResourceManager was unreachable for so long that it may start another AM attempt: {error}"
                ) from error
            raise SchedulerLostError(f"lost the connection to the ResourceManager: {error}") from error

    async def watch(self) -> None:
        """Wait until the heartbeat ends, and raise its error."""
        if self._heartbeat is not None:
            await asyncio.shield(self._heartbeat)

    def _on_heartbeat(self, update: AllocationUpdate) -> None:
        if self._recovery:
            self._recovery.on_heartbeat(update)
        self._blacklist.refresh()
        for report in update.nodes:  # first: one heartbeat may bring a node's failure and the ends of its containers
            self._containers.on_node_changed(report)
        for container in update.granted:
            self._take(container)
        for status in update.completed:
            self._containers.on_completed(status)
        for refused in update.refused:
            self._requests.on_refused(refused.key, refused.reason)
        for rejected in update.rejected:
            self._requests.on_rejected(rejected.key, rejected.reason)
        for container_id in update.preempted:
            self._containers.on_preempted(container_id)
        self._requests.report_pending()
        self._limit_exclusions(was_granted=bool(update.granted))

    def _take(self, container: Container) -> None:
        assert container.id is not None
        role = self._requests.find_role(container.allocation_request_id)
        if role is None:
            _log.warning("%s was granted without a matching request; releasing it", ids.format_container(container.id))
            self._master.release(container.id)
            return
        self._requests.on_granted(role)
        self._containers.add(container, role)

    # --- recovery of earlier AM attempts ------------------------------------------------------------------------------

    async def recover(self, known: Sequence[KnownContainer]) -> Sequence[str]:
        """As `ContainerAllocator.recover`."""
        if self._heartbeat is not None:  # the first AM attempt, or a second call
            return [container.id for container in known if self._containers.has(container.id)]
        retry = self._attempt.cluster.configuration.get_seconds("yarn.resourcemanager.connect.retry-interval.ms")
        self._recovery = ContainerRecovery(
            known,
            self._containers,
            self._master,
            self._nodes,
            own=self._attempt.container.container,
            usual_nodes=self._attempt.payload.node_count,
            timeout=2 * retry + _NODES_RETURN_SECONDS,
            emit=self._emit,
        )
        self._recovery.add_running(self._registration.previous_containers)
        delayed_events = self._delayed_events = []
        self._heartbeat = self._start_heartbeat()
        settling = asyncio.get_running_loop().create_task(self._recovery.wait_settled())
        await asyncio.wait({settling, self._heartbeat}, return_when=asyncio.FIRST_COMPLETED)
        if not settling.done():
            settling.cancel()
            await self._heartbeat  # it has failed, and raises why
        found, ends = self._recovery.find_outcome()
        self._delayed_events = None
        for event in (*delayed_events, *ends):
            self._emit(event)
        return found

    # --- requests and containers --------------------------------------------------------------------------------------

    def set_demand(self, role: str, total: int) -> None:
        """As `ContainerAllocator.set_demand`."""
        self._requests.set(role, total)
        self._limit_exclusions()

    def set_memory(self, role: str, memory: int) -> None:
        """As `ContainerAllocator.set_memory`."""
        self._requests.set_memory(role, memory)

    async def launch(self, container: str, task: str, context: Callable[[], ContainerLaunchContext]) -> None:
        """As `ContainerTable.launch`."""
        await self._containers.launch(container, task, context)

    def release(self, container: str, timeout: float) -> None:
        """As `ContainerAllocator.release`."""
        self._run_when_current(partial(self._containers.release, container, timeout))

    def kill(self, container: str, reason: str) -> None:
        """As `ContainerAllocator.kill`."""
        self._run_when_current(partial(self._containers.kill, container, reason))

    def exclude(self, host: str) -> None:
        """As `ContainerAllocator.exclude`."""
        self._blacklist.exclude(host)
        self._limit_exclusions()

    def include(self, host: str) -> None:
        """As `ContainerAllocator.include`."""
        self._blacklist.include(host)

    def _limit_exclusions(self, *, was_granted: bool = False) -> None:
        self._blacklist.limit(is_waiting=self._master.count_outstanding() > 0, was_granted=was_granted)

    def _on_container_ended(self, role: str) -> None:
        if not self._is_closed:
            self._requests.request_missing(role)
            self._limit_exclusions()

    def _run_when_current(self, do: Callable[[], None]) -> None:
        """Call it now; or, in order, when the ResourceManager has responded again."""
        if self._is_current() and not self._postponed:
            do()
            return
        self._postponed.append(do)
        if self._postponed_task is None or self._postponed_task.done():
            self._postponed_task = asyncio.get_running_loop().create_task(self._run_postponed())

    async def _run_postponed(self) -> None:
        while self._postponed:
            if self._is_current():
                self._postponed.popleft()()
            else:
                await asyncio.sleep(_POLL_SECONDS)

    # --- the end ------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Withdraw all requests, and stop all containers. The heartbeat continues. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        self._postponed.clear()  # all containers are stopped now
        if self._postponed_task:
            self._postponed_task.cancel()
        self._blacklist.close()
        self._requests.close()
        await self._containers.close()

    async def stop_heartbeat(self) -> None:
        """Stop the heartbeat, after the AM has been unregistered."""
        if self._heartbeat:
            self._heartbeat.cancel()
            await asyncio.gather(self._heartbeat, return_exceptions=True)

    def _emit(self, event: Event) -> None:
        """Call the sink on the next loop iteration: never from inside a call of its own, and not during recovery."""
        if self._delayed_events is not None:
            self._delayed_events.append(event)
            return
        asyncio.get_running_loop().call_soon(self._deliver, event)

    def _deliver(self, event: Event) -> None:
        if not self._is_closed:
            self._sink(event)
