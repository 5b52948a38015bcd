"""Containers of YARN, each with an executor in it, from their allocation until their end has been reported.

Nodes are contacted concurrently to launch and stop containers. A container counts until the ResourceManager has
reported its end, or its node has, where that is sooner.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import Enum

from tony.core.events import ContainerEnded, EndConfirmation, Event, Granted
from tony.errors import SchedulerError
from tony.hadoop import ids
from tony.hadoop.errors import HadoopError
from tony.hadoop.wire.yarn_records import (
    Container,
    ContainerId,
    ContainerLaunchContext,
    ContainerState,
    ContainerStatus,
    NodeReport,
)
from tony.hadoop.yarn.am_rm_client import MasterClient
from tony.hadoop.yarn.nm_client import NodeClients
from tony.model.failure import ClusterKill
from tony.model.job_spec import MIB
from tony.schedulers.yarn.allocation import exit_reasons

#: Seconds to wait for the last containers to end.
_CLOSE_SECONDS = 20.0
#: Seconds of silence after which the ResourceManager is not waited for: the nodes have stopped the containers.
_RM_SILENCE_SECONDS = 2.0
#: Poll interval in seconds for its response while the last containers end.
_POLL_SECONDS = 0.5
#: Seconds for a node to prove the end of a container that YARN has given up, and between two requests.
_PROOF_SECONDS = 2.0
_PROOF_POLL_SECONDS = 0.1
#: Texts in a node's response for a container that has ended and is forgotten.
_ENDED_TEXTS = ("recently stopped", "recently finished")
#: Seconds between requests for the status of a container that should end.
_STATUS_POLL_SECONDS = (0.1, 0.15, 0.25, 0.5, 0.5)
_log = logging.getLogger(__name__)


class _Stage(Enum):
    GRANTED = "granted"  #: nothing runs in it
    STARTING = "starting"  #: its node is being asked to start it
    RUNNING = "running"  #: started, and not ended
    ENDING = "ending"  #: being stopped


@dataclass(slots=True, kw_only=True, eq=False)
class _ContainerRow:
    """One container until its end has been reported.

    Attributes:
        cause: why the AM ends it; empty as long as it does not.
        force: kills it when the grace period of `release` has passed.
        end_poll: polls its node for its end.
        warned: the last warning about the state of its node.
        is_preempted: YARN has announced its preemption.
        is_end_unconfirmed: its node did not confirm its end, so YARN's report will be no proof.
    """

    container: Container
    name: str
    role: str
    stage: _Stage = _Stage.GRANTED
    cause: str = ""
    force: asyncio.TimerHandle | None = None
    end_poll: asyncio.Task[None] | None = None
    task: str = ""
    warned: str = ""
    is_preempted: bool = False
    is_end_unconfirmed: bool = False

    def __str__(self) -> str:
        return f"{self.task or self.role} in {self.name}"


class ContainerTable:
    """All containers of a job.

    Args:
        emit: receives events; later, never from inside a call of its own.
        ended: called with the role of each container that no longer counts.
        unfit: called before that with role, host and message if the host has no Python for the executor.
        run_when_current: calls a function as soon as no other AM attempt can have the containers.
    """

    def __init__(
        self,
        master: MasterClient,
        nodes: NodeClients,
        *,
        emit: Callable[[Event], None],
        ended: Callable[[str], None],
        unfit: Callable[[str, str, str], None],
        run_when_current: Callable[[Callable[[], None]], None],
    ) -> None:
        self._master, self._nodes = master, nodes
        self._emit, self._ended, self._unfit, self._run_when_current = emit, ended, unfit, run_when_current
        self._held: dict[str, _ContainerRow] = {}
        self._count: Counter[str] = Counter()  # of `_held`, by role: thousands end at once
        self._empty = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_rm_lost = False

    def count(self, role: str) -> int:
        """Return the number of containers of a role."""
        return self._count[role]

    def on_rm_lost(self) -> None:
        """Expect no more reports from the ResourceManager."""
        self._is_rm_lost = True
        self._empty.set()

    # --- reports of YARN --------------------------------------------------------------------------------------------

    def add(self, container: Container, role: str) -> None:
        """Add an allocated container."""
        name = ids.format_container(_parse_id(container))
        self._held[name] = _ContainerRow(container=container, name=name, role=role)
        self._count[role] += 1
        granted = container.resource.memory if container.resource else None
        memory = None if granted is None else granted * MIB
        self._emit(Granted(container=name, role=role, host=_format_host(container), memory=memory))

    def add_recovered(self, container: Container, role: str, task: str) -> None:
        """Add a running container of an earlier AM attempt."""
        name = ids.format_container(_parse_id(container))
        if name not in self._held:
            self._held[name] = _ContainerRow(container=container, name=name, role=role, task=task, stage=_Stage.RUNNING)
            self._count[role] += 1

    def has(self, name: str) -> bool:
        """Return True if the container is in the table."""
        return name in self._held

    def stop_unknown(self, container: Container) -> None:
        """Stop a container that is not in the event log, with everything in it."""
        self._spawn(self._stop_unknown(container))

    async def _stop_unknown(self, container: Container) -> None:
        name = ids.format_container(_parse_id(container))
        _log.warning("stopping container %s of an earlier AM attempt, which is not in the event log", name)
        if container.node is not None:
            try:
                await self._nodes.stop(container.node, [_parse_id(container)])
            except HadoopError as error:
                _log.info("the node of container %s cannot stop it: %s", name, error)
        self._master.release(_parse_id(container))

    def on_preempted(self, container_id: ContainerId) -> None:
        """Warn of preemption. A negotiable request is treated like a strict one: other containers are not offered."""
        held = self._held.get(ids.format_container(container_id))
        if held and not held.is_preempted:
            held.is_preempted = True
            _log.warning("%s: YARN will preempt it for another queue or application", held)

    def on_node_changed(self, report: NodeReport) -> None:
        """Warn of a state change of a node that may end its containers."""
        for held in self._held.values():
            warned = exit_reasons.format_warning(report)
            if report.id is None or held.container.node != report.id or held.warned == warned:
                continue
            held.warned = warned
            _log.warning("%s: %s", held, warned or f"its node {report.id.host} is healthy again")

    def on_completed(self, status: ContainerStatus) -> None:
        """Process the end of a container, which may have been reported before."""
        held = self._held.get(ids.format_container(status.id)) if status.id else None
        if held is None:
            return
        if exit_reasons.is_lost(status) and held.stage is not _Stage.GRANTED and not held.is_end_unconfirmed:
            held.is_end_unconfirmed = True
            self._spawn(self._prove(held, status))
            return
        self._has_ended(held, status)

    def _has_ended(self, held: _ContainerRow, status: ContainerStatus) -> None:
        killed_here = bool(held.cause)
        no_python = "" if killed_here else exit_reasons.find_missing_python_message(status)
        if no_python:
            self._unfit(held.role, _format_host(held.container), no_python)
        reported = exit_reasons.explain_exit(status)
        if held.warned and exit_reasons.is_blameless(status):
            reported += f" (before: {held.warned})"
        self._report_ended(
            held,
            held.cause or reported,
            blameless=not killed_here and exit_reasons.is_blameless(status),
            kill=None if killed_here else exit_reasons.find_kill(status),
            is_unconfirmed=held.is_end_unconfirmed,
        )

    async def _prove(self, held: _ContainerRow, status: ContainerStatus) -> None:
        """Get proof of the end from its node, if reachable: YARN calls many nodes lost that are not dead."""
        node, container_id = held.container.node, _parse_id(held.container)
        assert node is not None
        try:
            async with asyncio.timeout(_PROOF_SECONDS):
                await self._nodes.stop(node, [container_id])
                while not _is_proof((await self._nodes.fetch_statuses(node, [container_id])).get(container_id)):
                    await asyncio.sleep(_PROOF_POLL_SECONDS)
            held.is_end_unconfirmed = False
        except (HadoopError, TimeoutError) as error:
            _log.warning("the end of %s is unconfirmed: %s", held, error or "its node does not confirm it")
        self._has_ended(held, status)

    # --- starting ---------------------------------------------------------------------------------------------------

    async def launch(self, container: str, task: str, context: Callable[[], ContainerLaunchContext]) -> None:
        """Launch a container.

        Raises:
            SchedulerError: it could not be started; the container is gone.
        """
        held = self._held.get(container)
        if held is None:
            raise SchedulerError(f"cannot launch {task}: container {container} has already ended")
        if held.stage is not _Stage.GRANTED:
            return
        held.stage, held.task = _Stage.STARTING, task
        try:
            await self._nodes.start(held.container, context())
        except HadoopError as error:
            self._master.release(_parse_id(held.container))  # its node may have started it all the same
            if self._forget(held):
                raise SchedulerError(f"cannot launch {task} in {container}: {error}") from error
            return  # its end came first, and was reported
        finally:
            if held.stage is _Stage.STARTING:  # also if cancelled: it may have started
                held.stage = _Stage.RUNNING
        if held.cause and container in self._held:
            self._end(held, held.cause)

    # --- ending -----------------------------------------------------------------------------------------------------

    def release(self, container: str, timeout: float) -> None:
        """Release a container; kill it if it has not ended after `timeout` seconds."""
        held = self._held.get(container)
        if held is None:
            return
        if held.stage is _Stage.GRANTED:
            self._release(held, "released")
        elif held.stage in (_Stage.STARTING, _Stage.RUNNING):
            due = held.force.when() if held.force else float("inf")
            loop = asyncio.get_running_loop()
            if loop.time() + timeout < due:
                if held.force:
                    held.force.cancel()
                cause = f"released, and killed because its executor did not exit within {timeout:g} s"
                held.force = loop.call_later(
                    timeout, self._run_when_current, lambda: self._end_after_grace(held, cause)
                )
            if held.end_poll is None:
                held.end_poll = self._spawn(self._poll_end(held))

    def kill(self, container: str, reason: str) -> None:
        """Kill a container with everything in it."""
        held = self._held.get(container)
        if held:
            self._end(held, f"killed: {reason}")

    def _end_after_grace(self, held: _ContainerRow, cause: str) -> None:
        if held.name in self._held:
            self._end(held, cause)

    def _end(self, held: _ContainerRow, cause: str) -> None:
        held.cause = held.cause or cause
        if held.stage is _Stage.GRANTED:
            self._release(held, cause)
        elif held.stage is _Stage.RUNNING:
            held.stage = _Stage.ENDING
            self._spawn(self._stop(held))

    def _release(self, held: _ContainerRow, cause: str) -> None:
        self._master.release(_parse_id(held.container))
        self._report_ended(held, cause, blameless=False)

    async def _stop(self, held: _ContainerRow) -> None:
        """Stop a container by its node; if that fails, by the ResourceManager."""
        container_id = _parse_id(held.container)
        assert held.container.node is not None
        try:
            failed = (await self._nodes.stop(held.container.node, [container_id]))[container_id]
            if failed is None:
                self._master.wake()
                if self._is_rm_lost:
                    self._report_ended(held, held.cause, blameless=False)
                return
            _log.warning("the node of container %s cannot stop it: %s", held.name, failed)
        except HadoopError as error:
            _log.warning("the node of container %s cannot stop it: %s", held.name, error)
            held.is_end_unconfirmed = True
        self._master.release(container_id)

    async def _poll_end(self, held: _ContainerRow) -> None:
        """Poll its node for its end, in case the ResourceManager reports it later.

        A node reports an end at once, but the second of two within milliseconds only with its next regular heartbeat.
        """
        container_id = _parse_id(held.container)
        assert held.container.node is not None
        for pause in _STATUS_POLL_SECONDS:
            await asyncio.sleep(pause)
            try:
                found = await self._nodes.fetch_statuses(held.container.node, [container_id])
            except HadoopError as error:
                _log.info("cannot get the status of container %s from its node: %s", held.name, error)
                return
            status = found.get(container_id)
            if isinstance(status, ContainerStatus) and status.state is ContainerState.COMPLETE:
                held.end_poll = None
                self.on_completed(status)
                return

    def _report_ended(
        self,
        held: _ContainerRow,
        cause: str,
        *,
        blameless: bool,
        kill: ClusterKill | None = None,
        is_unconfirmed: bool = False,
    ) -> None:
        if self._forget(held):
            self._emit(
                ContainerEnded(
                    container=held.name,
                    cause=cause,
                    blameless=blameless,
                    kill=kill,
                    confirmation=EndConfirmation.UNCONFIRMED if is_unconfirmed else EndConfirmation.ENDED,
                )
            )

    def _forget(self, held: _ContainerRow) -> bool:
        """Remove a container from the table; return False if it was not in it."""
        if held.force:
            held.force.cancel()
        if held.end_poll:
            held.end_poll.cancel()
        if self._held.pop(held.name, None) is None:
            return False
        self._count[held.role] -= 1
        self._ended(held.role)
        if not self._held:
            self._empty.set()
        return True

    async def close(self) -> None:
        """Stop all containers."""
        for held in list(self._held.values()):
            self._end(held, "the job has finished")
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                while self._held and not self._is_rm_lost and not self._is_all_stopped():
                    self._empty.clear()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_POLL_SECONDS):
                            await self._empty.wait()
                await asyncio.gather(*self._tasks, return_exceptions=True)  # if there is no ResourceManager
        except TimeoutError:
            _log.error("%d containers have not ended; YARN stops them with the application", len(self._held))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._nodes.close()

    def _is_all_stopped(self) -> bool:
        """Return True if every node has stopped its containers, and the ResourceManager cannot report their ends."""
        return not self._tasks and self._master.silence > _RM_SILENCE_SECONDS

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _is_proof(reported: ContainerStatus | HadoopError | None) -> bool:
    if isinstance(reported, ContainerStatus):
        return reported.state is ContainerState.COMPLETE
    return reported is not None and any(words in str(reported) for words in _ENDED_TEXTS)


def build_ended_before(name: str, status: ContainerStatus) -> ContainerEnded:
    """Return the end of a container that happened between two AM attempts."""
    return ContainerEnded(
        container=name,
        cause=exit_reasons.explain_exit(status),
        blameless=exit_reasons.is_blameless(status),
        kill=exit_reasons.find_kill(status),
        confirmation=EndConfirmation.UNCONFIRMED if exit_reasons.is_lost(status) else EndConfirmation.ENDED,
    )


def _format_host(container: Container) -> str:
    return container.node.host or "" if container.node else ""


def _parse_id(container: Container) -> ContainerId:
    assert container.id is not None
    return container.id
