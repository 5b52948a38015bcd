"""Containers of YARN from their grant until their end has been told, each with an executor in it.

Launching and ending talk with the nodes, many at once. A container counts until the ResourceManager has told its end,
or its node has, where that is sooner.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from enum import Enum

from tony.core.events import ContainerEnded, Event, Granted
from tony.dataclass import dataclass
from tony.errors import SchedulerError
from tony.hadoop import ids
from tony.hadoop.ipc.errors import HadoopError
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
from tony.schedulers.yarn import exit_reasons

#: Seconds that the last containers may take to end.
_LAST_WAIT = 20.0
#: Seconds after which a ResourceManager that does not answer is not waited for: the nodes have ended the containers.
_SILENCE = 2.0
#: Seconds between two looks whether the ResourceManager answers, when the last containers are to end.
_LOOK = 0.5
#: Seconds in which the node of a container may prove its end that YARN has given up, and between two questions.
_PROOF, _ASK_AGAIN = 2.0, 0.1
#: What a node says of a container that has ended, and that it has forgotten.
_KNOWN_AS_ENDED = ("recently stopped", "recently finished")
#: Seconds after which, again and again, the node of a container that should end is asked whether it has.
_LOOKS = (0.1, 0.15, 0.25, 0.5, 0.5)
_log = logging.getLogger(__name__)


class _Stage(Enum):
    GRANTED = "granted"  #: nothing runs in it
    STARTING = "starting"  #: its node is told to start it
    RUNNING = "running"  #: it was started, and has not ended
    ENDING = "ending"  #: it was told to end


@dataclass(slots=True, kw_only=True, eq=False)
class _Held:
    """One container until its end has been told.

    Attributes:
        cause: why we end it; empty as long as we do not.
        force: ends it when the patience of `release` is over.
        look: asks its node whether it has ended.
        warned: what YARN has said of its node that may end it.
        wanted_back: YARN has said that it will take it back.
        unproven: its node did not take our word for its end, so that YARN's will be no proof.
    """

    container: Container
    name: str
    role: str
    stage: _Stage = _Stage.GRANTED
    cause: str = ""
    force: asyncio.TimerHandle | None = None
    look: asyncio.Task[None] | None = None
    task: str = ""
    warned: str = ""
    wanted_back: bool = False
    unproven: bool = False

    def __str__(self) -> str:
        return f"{self.task or self.role} in {self.name}"


class Containers:
    """All that a job holds.

    Args:
        tell: takes what happens; soon, never from inside a call of its own.
        ended: hears of each role of which one counts no more.
        unfit: hears before that of the role, the host, and what was said, if the host has no Python for our programs.
        in_charge: does something as soon as no other master can have the containers.
    """

    def __init__(
        self,
        master: MasterClient,
        nodes: NodeClients,
        *,
        tell: Callable[[Event], None],
        ended: Callable[[str], None],
        unfit: Callable[[str, str, str], None],
        in_charge: Callable[[Callable[[], None]], None] = lambda do: do(),
    ) -> None:
        self._master, self._nodes = master, nodes
        self._tell, self._ended, self._unfit, self._in_charge = tell, ended, unfit, in_charge
        self._held: dict[str, _Held] = {}
        self._count: Counter[str] = Counter()  # of `_held`, by role: thousands end at once
        self._empty = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_alone = False

    def count(self, role: str) -> int:
        """How many of a role there are."""
        return self._count[role]

    def left_alone(self) -> None:
        """From now on no ResourceManager tells of ends."""
        self._is_alone = True
        self._empty.set()

    # --- what YARN tells --------------------------------------------------------------------------------------------

    def take(self, container: Container, role: str) -> None:
        """One was granted."""
        name = ids.container_text(_id(container))
        self._held[name] = _Held(container=container, name=name, role=role)
        self._count[role] += 1
        self._tell(Granted(container=name, role=role, host=_host(container)))

    def adopt(self, container: Container, role: str, task: str) -> None:
        """One of an earlier attempt runs on."""
        name = ids.container_text(_id(container))
        if name not in self._held:
            self._held[name] = _Held(container=container, name=name, role=role, task=task, stage=_Stage.RUNNING)
            self._count[role] += 1

    def has(self, name: str) -> bool:
        """Whether it counts."""
        return name in self._held

    async def end_foreign(self, container: Container) -> None:
        """Ends one that is none of ours, with all that is in it."""
        name = ids.container_text(_id(container))
        _log.warning("%s is left from an earlier attempt, and unknown to its log: it is ended", name)
        if container.node is not None:
            try:
                await self._nodes.stop(container.node, [_id(container)])
            except HadoopError as error:
                _log.info("%s cannot be stopped by its node: %s", name, error)
        self._master.release(_id(container))

    def wanted_back(self, container_id: ContainerId) -> None:
        """Of either kind: that which may be averted by giving back as much otherwise comes to the same for us."""
        held = self._held.get(ids.container_text(container_id))
        if held and not held.wanted_back:
            held.wanted_back = True
            _log.warning("%s: YARN will take it back for another queue or application (preemption)", held)

    def node_changed(self, report: NodeReport) -> None:
        """Something may end what is on a node."""
        for held in self._held.values():
            warned = exit_reasons.warning(report)
            if report.id is None or held.container.node != report.id or held.warned == warned:
                continue
            held.warned = warned
            _log.warning("%s: %s", held, warned or f"its node {report.id.host} is well again")

    def completed(self, status: ContainerStatus) -> None:
        """One has ended; perhaps it was told before."""
        held = self._held.get(ids.container_text(status.id)) if status.id else None
        if held is None:
            return
        if exit_reasons.is_lost(status) and held.stage is not _Stage.GRANTED and not held.unproven:
            held.unproven = True
            self._spawn(self._prove(held, status))
            return
        self._has_ended(held, status)

    def _has_ended(self, held: _Held, status: ContainerStatus) -> None:
        ours = bool(held.cause)
        no_python = "" if ours else exit_reasons.no_python(status)
        if no_python:
            self._unfit(held.role, _host(held.container), no_python)
        said = exit_reasons.cause(status)
        if held.warned and exit_reasons.is_blameless(status):
            said += f" (before: {held.warned})"
        self._gone(
            held,
            held.cause or said,
            blameless=not ours and exit_reasons.is_blameless(status),
            forced=not ours and exit_reasons.is_forced(status),
            over_memory=not ours and exit_reasons.is_over_memory(status),
            presumed=held.unproven,
        )

    async def _prove(self, held: _Held, status: ContainerStatus) -> None:
        """Has its node say that it has ended, if that is still there: YARN calls many a node lost that is not dead."""
        node, container_id = held.container.node, _id(held.container)
        assert node is not None
        try:
            async with asyncio.timeout(_PROOF):
                await self._nodes.stop(node, [container_id])
                while not _is_proof((await self._nodes.statuses(node, [container_id])).get(container_id)):
                    await asyncio.sleep(_ASK_AGAIN)
            held.unproven = False
        except (HadoopError, TimeoutError) as error:
            _log.warning("nobody has seen %s end: %s", held, error or "its node does not say so")
        self._has_ended(held, status)

    # --- starting ---------------------------------------------------------------------------------------------------

    async def launch(self, container: str, task: str, context: Callable[[], ContainerLaunchContext]) -> None:
        """Starts what the context says.

        Raises:
            SchedulerError: it could not be started; the container is gone.
        """
        held = self._held.get(container)
        if held is None:
            raise SchedulerError(f"container {container} has ended before {task} was launched in it")
        if held.stage is not _Stage.GRANTED:
            return
        held.stage, held.task = _Stage.STARTING, task
        try:
            await self._nodes.start(held.container, context())
        except HadoopError as error:
            self._master.release(_id(held.container))  # its node may have started it all the same
            if self._forget(held):
                raise SchedulerError(f"{task} cannot be started in {container}: {error}") from error
            return  # its end came first, and was told
        finally:
            if held.stage is _Stage.STARTING:  # also if we are cancelled: nobody knows then, so it counts as started
                held.stage = _Stage.RUNNING
        if held.cause and container in self._held:
            self._end(held, held.cause)

    # --- ending -----------------------------------------------------------------------------------------------------

    def release(self, container: str, patience: float) -> None:
        """Gives one back; ends it by force if it has not ended when the patience is over."""
        held = self._held.get(container)
        if held is None:
            return
        if held.stage is _Stage.GRANTED:
            self._give_back(held, "it was given back")
        elif held.stage in (_Stage.STARTING, _Stage.RUNNING):
            again = held.force.when() if held.force else float("inf")
            loop = asyncio.get_running_loop()
            if loop.time() + patience < again:
                if held.force:
                    held.force.cancel()
                cause = f"it was given back, and its executor did not end within {patience:g} s"
                held.force = loop.call_later(patience, self._in_charge, lambda: self._end_late(held, cause))
            if held.look is None:
                held.look = self._spawn(self._look_after(held))

    def kill(self, container: str, reason: str) -> None:
        """Ends one, with all that is in it."""
        held = self._held.get(container)
        if held:
            self._end(held, f"killed: {reason}")

    def _end_late(self, held: _Held, cause: str) -> None:
        if held.name in self._held:
            self._end(held, cause)

    def _end(self, held: _Held, cause: str) -> None:
        held.cause = held.cause or cause
        if held.stage is _Stage.GRANTED:
            self._give_back(held, cause)
        elif held.stage is _Stage.RUNNING:
            held.stage = _Stage.ENDING
            self._spawn(self._stop(held))

    def _give_back(self, held: _Held, cause: str) -> None:
        self._master.release(_id(held.container))
        self._gone(held, cause, blameless=False)

    async def _stop(self, held: _Held) -> None:
        """Has its node end it. If the node does not listen, the ResourceManager tells it to."""
        container_id = _id(held.container)
        assert held.container.node is not None
        try:
            failed = (await self._nodes.stop(held.container.node, [container_id]))[container_id]
            if failed is None:
                self._master.wake()
                if self._is_alone:
                    self._gone(held, held.cause, blameless=False)
                return
            _log.warning("%s cannot be stopped by its node: %s", held.name, failed)
        except HadoopError as error:
            _log.warning("%s cannot be stopped by its node: %s", held.name, error)
            held.unproven = True
        self._master.release(container_id)

    async def _look_after(self, held: _Held) -> None:
        """Hears of its end from its node, where the ResourceManager does not tell it first.

        A node tells an end at once, but of two within milliseconds the second with its next regular heartbeat.
        """
        container_id = _id(held.container)
        assert held.container.node is not None
        for pause in _LOOKS:
            await asyncio.sleep(pause)
            try:
                found = await self._nodes.statuses(held.container.node, [container_id])
            except HadoopError as error:
                _log.info("%s: its node does not say whether it has ended: %s", held.name, error)
                return
            status = found.get(container_id)
            if isinstance(status, ContainerStatus) and status.state is ContainerState.COMPLETE:
                held.look = None
                self.completed(status)
                return

    def _gone(
        self,
        held: _Held,
        cause: str,
        *,
        blameless: bool,
        forced: bool = False,
        over_memory: bool = False,
        presumed: bool = False,
    ) -> None:
        if self._forget(held):
            self._tell(
                ContainerEnded(
                    container=held.name,
                    cause=cause,
                    blameless=blameless,
                    forced=forced,
                    over_memory=over_memory,
                    presumed=presumed,
                )
            )

    def _forget(self, held: _Held) -> bool:
        """It counts no more; False if it did not before."""
        if held.force:
            held.force.cancel()
        if held.look:
            held.look.cancel()
        if self._held.pop(held.name, None) is None:
            return False
        self._count[held.role] -= 1
        self._ended(held.role)
        if not self._held:
            self._empty.set()
        return True

    async def close(self) -> None:
        """Ends all of them."""
        for held in list(self._held.values()):
            self._end(held, "the job is over")
        try:
            async with asyncio.timeout(_LAST_WAIT):
                while self._held and not self._is_alone and not self._is_all_asked():
                    self._empty.clear()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_LOOK):
                            await self._empty.wait()
                await asyncio.gather(*self._tasks, return_exceptions=True)  # no ResourceManager tells: the nodes do
        except TimeoutError:
            _log.error("%d containers do not end; YARN ends them with the application", len(self._held))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._nodes.close()

    def _is_all_asked(self) -> bool:
        """Whether every node has done what it was told, and nobody is there who could tell us of the ends."""
        return not self._tasks and self._master.silence > _SILENCE

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _is_proof(said: ContainerStatus | HadoopError | None) -> bool:
    if isinstance(said, ContainerStatus):
        return said.state is ContainerState.COMPLETE
    return said is not None and any(words in str(said) for words in _KNOWN_AS_ENDED)


def ended_before(name: str, status: ContainerStatus) -> ContainerEnded:
    """The end of a container of an earlier attempt, while there was none."""
    return ContainerEnded(
        container=name,
        cause=exit_reasons.cause(status),
        blameless=exit_reasons.is_blameless(status),
        forced=exit_reasons.is_forced(status),
        over_memory=exit_reasons.is_over_memory(status),
        presumed=exit_reasons.is_lost(status),
    )


def _host(container: Container) -> str:
    return container.node.host or "" if container.node else ""


def _id(container: Container) -> ContainerId:
    assert container.id is not None
    return container.id
