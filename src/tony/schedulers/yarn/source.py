"""The application master's half: containers of YARN, each with an executor in it.

The heartbeat to the ResourceManager is a task of its own; launching talks with the nodes beside it, many at once. A
container counts from its grant until the ResourceManager has told its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Coroutine, Sequence
from enum import Enum
from typing import Any

from tony.core.events import ContainerEnded, Event, Granted, Queued, Unsatisfiable, UserCommand
from tony.dataclass import dataclass, replace
from tony.errors import AttemptLost, InfraError, SchedulerError, SchedulerLost
from tony.hadoop import ids
from tony.hadoop.configuration import Configuration
from tony.hadoop.configuration.daemons import resource_managers
from tony.hadoop.ipc.errors import HadoopError
from tony.hadoop.logins import protections
from tony.hadoop.text import shown
from tony.hadoop.tokens.credentials import Credentials as Tokens
from tony.hadoop.tokens.selection import AM_RM, select
from tony.hadoop.wire.placement import apart
from tony.hadoop.wire.records import Container, ContainerId, ContainerState, ContainerStatus, FinalStatus, NodeReport
from tony.hadoop.wire.reports import ApplicationReport, ApplicationState
from tony.hadoop.yarn.application_client import ENDED
from tony.hadoop.yarn.asks import Ask, News
from tony.hadoop.yarn.master_client import AttemptOver, MasterClient, Registration, scheduler_proxy
from tony.hadoop.yarn.node_client import NodeClients
from tony.model.report import JobReport
from tony.model.staged import StagedRole
from tony.model.states import JobState
from tony.protocol.launch import Credentials, TaskPart
from tony.schedulers.base import ContainerSource, PageDoor, PreparedJob, Sink
from tony.schedulers.yarn import ends
from tony.schedulers.yarn.capabilities import CAPABILITIES
from tony.schedulers.yarn.cluster import Cluster
from tony.schedulers.yarn.contexts import capability, gpus, task_container
from tony.schedulers.yarn.inside import Inside
from tony.schedulers.yarn.papers import TASK, JobPapers, TaskPapers, packed
from tony.schedulers.yarn.publisher import Publisher
from tony.schedulers.yarn.settings import read_settings
from tony.schedulers.yarn.tokens import for_programs

#: Lower is served first; one for all roles: the machine decides in which order they are asked for.
_PRIORITY = 1
#: Seconds that the last containers may take to end.
_LAST_WAIT = 20.0
#: Seconds after which a ResourceManager that does not answer is not waited for: the nodes have ended the containers.
_SILENCE = 2.0
#: Seconds after which, again and again, the node of a container that should end is asked whether it has.
_LOOKS = (0.1, 0.15, 0.25, 0.5, 0.5)
#: Seconds until missing containers are told of: before, they are probably just on their way.
_QUEUED_AFTER = 2.0
#: Seconds between two looks whether the ResourceManager answers, when the last containers are to end.
_LOOK = 0.5
#: Seconds for YARN to tell why it wants us no more, and between two questions.
_ASKED, _ASK_AGAIN = 5.0, 0.1
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

    def __str__(self) -> str:
        return f"{self.task or self.role} in {self.name}"


class YarnSource(ContainerSource):
    """Containers of a YARN cluster, for the application master that runs in one of them.

    Args:
        papers: what the client sent.
        inside: our own container.
    """

    capabilities = CAPABILITIES

    def __init__(self, job: PreparedJob, papers: JobPapers, inside: Inside) -> None:
        self._job = job
        self._papers = papers
        self._inside = inside
        self._spec = job.record.spec
        self._settings, _ = read_settings(self._spec.scheduler_settings)
        self._configuration = Configuration.load(None, {}, given=papers.configuration)
        self._tokens = for_programs(inside.credentials)
        self._master: MasterClient | None = None
        self._nodes: NodeClients | None = None
        self._sink: Sink | None = None
        self._roles = tuple(self._spec.effective_roles)
        self._demand = dict.fromkeys(self._roles, 0)
        self._held: dict[str, _Held] = {}
        self._count = dict.fromkeys(self._roles, 0)  # of `_held`, by role: thousands end at once
        self._empty = asyncio.Event()
        self._registration: Registration | None = None
        self._beating: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._queued = ""
        #: Role -> why the ResourceManager finds no place for those that are missing.
        self._no_place: dict[str, str] = {}
        self._shortage: asyncio.TimerHandle | None = None
        self._publisher: Publisher | None = None

    @property
    def host(self) -> str:
        return self._inside.host

    def page_door(self) -> PageDoor | None:
        """YARN's web proxy: a program of its own, or a part of each ResourceManager."""
        own = self._configuration.get_address("yarn.web-proxy.address", 0)
        daemons = resource_managers(self._configuration)
        hosts = [own.host] if own else [daemon.web.host for daemon in daemons if daemon.web]
        web = own or next((daemon.web for daemon in daemons if daemon.web), None)
        peers = {str(found[4][0]) for name in hosts for found in _looked_up(name)}
        proxy = f"{daemons[0].web_scheme}://{web}/proxy/{self._job.record.job_id}/" if web else ""
        return PageDoor(peers=tuple(sorted(peers)), proxy=proxy) if peers else None

    # --- the ResourceManager ----------------------------------------------------------------------------------------

    async def open(self, sink: Sink) -> None:
        if self._sink:
            return
        self._sink = sink
        configuration = self._configuration
        token = select(self._inside.credentials, AM_RM)
        if token is None:
            raise SchedulerError(f"{self._inside.tokens} holds no token for the ResourceManager")
        wanted = protections(configuration)
        self._master = MasterClient(scheduler_proxy(configuration, token, protections=wanted), protections=wanted)
        self._nodes = NodeClients(self._master.node_tokens, protections=wanted)
        host, _, port = self.master_address.removeprefix("tls:").rpartition(
            ":"
        )  # empty: nobody listens, and never will
        page = f"http://{self.page_address}/" if self.page_address else ""
        self._registration = await self._master.register(host, int(port or -1), page)
        self._beating = asyncio.get_running_loop().create_task(self._beat(self._master))
        self._beating.add_done_callback(lambda _: self._empty.set())
        cluster = Cluster.of(configuration, {"HADOOP_USER_NAME": self._papers.user}, self._inside.credentials)
        own_log = self._inside.logs / "stderr"
        self._publisher = Publisher(
            cluster.web_files, self._papers, self._job.folder, own_log, recover=cluster.recover_lease
        )
        if self._inside.attempt > 1:
            raise AttemptLost(
                f"the application master of attempt {self._inside.attempt - 1} was lost, and the job with it: YARN has "
                "ended its containers, and a job does not begin anew by itself. Submit it again"
            )
        self._publisher.start()

    async def _beat(self, master: MasterClient) -> None:
        try:
            await master.run(self._heard)
        except AttemptOver as error:
            _log.error("%s", error)
            await self._given_up(error)
        except HadoopError as error:
            raise SchedulerLost(f"the ResourceManager is lost: {error}") from error

    async def _given_up(self, error: AttemptOver) -> None:
        """Somebody had YARN end the application, or it has lost our node: it tells us the same, but not others.

        Where it cannot be asked, as on clusters that know only its owner by a ticket, it was somebody.
        """
        why = str(error)
        try:
            async with asyncio.timeout(_ASKED):
                report = await self._last_word()
        except (InfraError, TimeoutError) as unknown:
            _log.warning("the end of the application is not known: %s", unknown or "no answer in time")
        else:
            said = "" if report.diagnostics in ("", "N/A") else shown(report.diagnostics).strip()
            if report.state is not ApplicationState.KILLED:
                raise AttemptLost(
                    "YARN has given up the application master, as it does when it misses its node, and the job with "
                    f"it{f': {said}' if said else ''}. Submit it again"
                ) from error
            why = said or why
        self._emit(UserCommand(actor=f"YARN: {why}", what="kill-now"))

    async def _last_word(self) -> ApplicationReport:
        """What YARN tells of the application when it has decided; of one that is to be killed that takes a moment."""
        application = ids.application_id(self._job.record.job_id)
        environ = {"HADOOP_USER_NAME": self._papers.user}
        cluster = Cluster.of(self._configuration, environ, self._inside.credentials)
        async with cluster.applications() as client:
            while True:
                report = await client.report(application)
                now = (report.current_attempt and report.current_attempt.number) or 0
                if report.state in ENDED or now > self._inside.attempt:
                    return report
                await asyncio.sleep(_ASK_AGAIN)

    async def watch(self) -> None:
        if self._beating:
            await asyncio.shield(self._beating)

    async def recover(self) -> Sequence[str]:
        return ()

    def _heard(self, news: News) -> None:
        for report in news.nodes:  # first: a node's trouble and the end of all on it may come in one
            self._node_changed(report)
        for container in news.granted:
            self._take(container)
        for status in news.completed:
            self._completed(status)
        for refused in news.refused:
            self._emit(Unsatisfiable(role=self._roles[refused.key], reason=refused.reason))
        for rejected in news.rejected:
            self._no_place[self._roles[rejected.key]] = rejected.reason
        for container_id in (*news.preempted, *news.preemptible):
            self._wanted_back(container_id)
        self._look_for_shortage()

    def _wanted_back(self, container_id: ContainerId) -> None:
        """Of either kind: that which may be averted by giving back as much otherwise comes to the same for us."""
        held = self._held.get(ids.container_text(container_id))
        if held and not held.wanted_back:
            held.wanted_back = True
            _log.warning("%s: YARN will take it back for another queue or application (preemption)", held)

    def _node_changed(self, report: NodeReport) -> None:
        for held in self._held.values():
            warned = ends.warning(report)
            if report.id is None or held.container.node != report.id or held.warned == warned:
                continue
            held.warned = warned
            _log.warning("%s: %s", held, warned or f"its node {report.id.host} is well again")

    def _take(self, container: Container) -> None:
        assert container.id is not None
        key = container.allocation_request_id
        if not 0 <= key < len(self._roles):
            _log.warning("%s was granted, which nobody asked for", ids.container_text(container.id))
            self._rm.release(container.id)
            return
        name, role = ids.container_text(container.id), self._roles[key]
        if not self._rm.outstanding(key):
            self._no_place.pop(role, None)
        self._held[name] = _Held(container=container, name=name, role=role)
        self._count[role] += 1
        host = container.node.host or "" if container.node else ""
        self._emit(Granted(container=name, role=role, host=host))

    @property
    def _rm(self) -> MasterClient:
        assert self._master is not None
        return self._master

    # --- demand ---------------------------------------------------------------------------------------------------

    def set_demand(self, role: str, total: int) -> None:
        if total == self._demand[role]:
            return
        self._demand[role] = total
        if total and self._registration and (missing := self._unknown_resources(role)):
            self._emit(Unsatisfiable(role=role, reason=f"the cluster counts no {missing}"))
            return
        self._ask(role)

    def _unknown_resources(self, role: str) -> str:
        """Resources that YARN would ignore without a word."""
        assert self._registration is not None
        known = {each.name for each in self._registration.resource_types}
        wanted = capability(self._spec.effective_roles[role].resources)
        return ", ".join(each.name for each in wanted.others if known and each.name not in known)

    def _ask(self, role: str) -> None:
        """Says how many are still to come. A container counts until its end was told."""
        self._rm.want(self._roles.index(role), max(0, self._demand[role] - self._count[role]), self._ask_of(role))
        self._look_for_shortage()

    def _ask_of(self, role: str) -> Ask:
        spec = self._spec.effective_roles[role]
        resource = capability(spec.resources)
        if spec.spread:
            return Ask(resource=resource, priority=_PRIORITY, tags=(role,), constraint=apart("node", role))
        label = spec.node_label or self._settings.node_label
        if label:
            return Ask(resource=resource, priority=_PRIORITY, label=label)
        nodes = self._papers.nodes
        racks = tuple(dict.fromkeys(rack for rack in nodes.values() if rack))
        return Ask(resource=resource, priority=_PRIORITY, hosts=tuple(nodes), racks=racks)

    def _look_for_shortage(self) -> None:
        """Tells after a moment what is missing, and at once when nothing is any more."""
        if self._rm.outstanding() == 0:
            if self._shortage:
                self._shortage.cancel()
                self._shortage = None
            self._say_queued("")
        elif self._shortage is None:
            self._shortage = asyncio.get_running_loop().call_later(_QUEUED_AFTER, self._tell_shortage)

    def _tell_shortage(self) -> None:
        self._shortage = None
        parts = []
        for key, role in enumerate(self._roles):
            missing = self._rm.outstanding(key)
            if missing:
                parts.append(f"{missing} of {self._demand[role]} containers of {role}")
        if parts:
            queue = (self._registration and self._registration.queue) or self._settings.queue
            why = "".join(
                f"; for {role} there is no place now ({reason}), it is asked for again and again"
                for role, reason in self._no_place.items()
            )
            self._say_queued(f"waiting for YARN: {', '.join(parts)} are not granted yet by queue {queue}{why}")

    def _say_queued(self, reason: str) -> None:
        if reason != self._queued:
            self._queued = reason
            self._emit(Queued(reason=reason))

    # --- starting -------------------------------------------------------------------------------------------------

    async def launch(self, container: str, task: TaskPart, credentials: Credentials) -> None:
        held = self._held.get(container)
        if held is None:
            raise SchedulerError(f"container {container} has ended before {task.role}:{task.index} was launched in it")
        if held.stage is not _Stage.GRANTED or self._nodes is None:
            return
        held.stage, held.task = _Stage.STARTING, f"{task.role}:{task.index}"
        staged = self._job.record.staged.roles.get(task.role, StagedRole())
        # A task without GPUs is kept from seeing any.
        task = replace(task, gpus=gpus(self._spec.effective_roles[task.role].resources))
        papers = TaskPapers(task=task, credentials=credentials, staged=staged)
        tokens = Tokens(tokens=self._tokens.tokens, secrets={**self._tokens.secrets, TASK: packed(papers)})
        context = task_container(
            self._spec,
            task.role,
            self._settings,
            self._papers.programs,
            staged,
            self._papers.objects,
            tokens,
        )
        try:
            await self._nodes.start(held.container, context)
        except HadoopError as error:
            assert held.container.id is not None
            self._rm.release(held.container.id)  # its node may have started it all the same
            if self._forget(held):
                raise SchedulerError(f"{task.role}:{task.index} cannot be started in {container}: {error}") from error
            return  # its end came first, and was told
        finally:
            if held.stage is _Stage.STARTING:  # also if we are cancelled: nobody knows then, so it counts as started
                held.stage = _Stage.RUNNING
        if held.cause and container in self._held:
            self._end(held, held.cause)

    # --- ending ---------------------------------------------------------------------------------------------------

    def release(self, container: str, patience: float) -> None:
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
                held.force = loop.call_later(patience, self._end, held, cause)
            if held.look is None:
                held.look = self._spawn(self._look_after(held))

    def kill(self, container: str, reason: str) -> None:
        held = self._held.get(container)
        if held:
            self._end(held, f"killed: {reason}")

    def _end(self, held: _Held, cause: str) -> None:
        held.cause = held.cause or cause
        if held.stage is _Stage.GRANTED:
            self._give_back(held, cause)
        elif held.stage is _Stage.RUNNING:
            held.stage = _Stage.ENDING
            self._spawn(self._stop(held))

    def _give_back(self, held: _Held, cause: str) -> None:
        assert held.container.id is not None
        self._rm.release(held.container.id)
        self._gone(held, cause, blameless=False)

    async def _stop(self, held: _Held) -> None:
        """Has its node end it. If the node does not listen, the ResourceManager tells it to."""
        assert held.container.id is not None
        assert held.container.node is not None
        assert self._nodes is not None
        try:
            failed = (await self._nodes.stop(held.container.node, [held.container.id]))[held.container.id]
            if failed is None:
                self._rm.wake()
                if self._beating and self._beating.done():  # no ResourceManager tells of its end any more
                    self._gone(held, held.cause, blameless=False)
                return
            _log.warning("%s cannot be stopped by its node: %s", held.name, failed)
        except HadoopError as error:
            _log.warning("%s cannot be stopped by its node: %s", held.name, error)
        self._rm.release(held.container.id)

    async def _look_after(self, held: _Held) -> None:
        """Hears of its end from its node, where the ResourceManager does not tell it first.

        A node tells an end at once, but of two within milliseconds the second with its next regular heartbeat.
        """
        assert held.container.id is not None
        assert held.container.node is not None
        assert self._nodes is not None
        for pause in _LOOKS:
            await asyncio.sleep(pause)
            try:
                found = await self._nodes.statuses(held.container.node, [held.container.id])
            except HadoopError as error:
                _log.info("%s: its node does not say whether it has ended: %s", held.name, error)
                return
            status = found.get(held.container.id)
            if isinstance(status, ContainerStatus) and status.state is ContainerState.COMPLETE:
                held.look = None
                self._completed(status)
                return

    def _completed(self, status: ContainerStatus) -> None:
        held = self._held.get(ids.container_text(status.id)) if status.id else None
        if held is None:
            return
        ours = bool(held.cause)
        said = ends.cause(status)
        if held.warned and ends.is_blameless(status):
            said += f" (before: {held.warned})"
        self._gone(
            held,
            held.cause or said,
            blameless=not ours and ends.is_blameless(status),
            forced=not ours and ends.is_forced(status),
        )

    def _gone(self, held: _Held, cause: str, *, blameless: bool, forced: bool = False) -> None:
        if self._forget(held):
            self._emit(ContainerEnded(container=held.name, cause=cause, blameless=blameless, forced=forced))

    def _forget(self, held: _Held) -> bool:
        """It counts no more; False if it did not before."""
        if held.force:
            held.force.cancel()
        if held.look:
            held.look.cancel()
        if self._held.pop(held.name, None) is None:
            return False
        self._count[held.role] -= 1
        if self._sink:
            self._ask(held.role)
        if not self._held:
            self._empty.set()
        return True

    async def close(self) -> None:
        if self._sink is None:
            return
        self._sink = None
        if self._shortage:
            self._shortage.cancel()
        if self._master is None or self._nodes is None:
            return
        for role in self._roles:
            self._master.want(self._roles.index(role), 0, self._ask_of(role))
        for held in list(self._held.values()):
            self._end(held, "the job is over")
        try:
            async with asyncio.timeout(_LAST_WAIT):
                while self._held and self._beating and not self._beating.done() and not self._is_all_asked():
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
        return not self._tasks and self._rm.silence > _SILENCE

    async def finish(self, report: JobReport) -> None:
        if self._master is None:  # the job broke off before it began: YARN knows nothing of us yet
            try:
                await self.open(lambda event: None)
            except InfraError as error:
                _log.info("%s", error)
        try:
            if self._publisher:
                await self._publisher.finish()
        finally:
            await self._unregister(report)

    async def _unregister(self, report: JobReport) -> None:
        """Without it YARN takes us for lost. So it is done whatever else has failed."""
        if self._master is None:
            return
        try:
            await self._master.finish(_STATUS.get(report.state, FinalStatus.FAILED), _diagnostics(report), "")
        except AttemptOver as error:
            _log.info("%s", error)
        finally:
            if self._beating:
                self._beating.cancel()
                await asyncio.gather(self._beating, return_exceptions=True)
            await self._master.close()

    # --- telling --------------------------------------------------------------------------------------------------

    def _emit(self, event: Event) -> None:
        """Tells the sink soon: never from inside a call of its own."""
        asyncio.get_running_loop().call_soon(self._tell, event)

    def _tell(self, event: Event) -> None:
        if self._sink:
            self._sink(event)

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _looked_up(host: str) -> list[Any]:
    try:
        return socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return []


_STATUS = {
    JobState.SUCCEEDED: FinalStatus.SUCCEEDED,
    JobState.FAILED: FinalStatus.FAILED,
    JobState.KILLED: FinalStatus.KILLED,
}


def _diagnostics(report: JobReport) -> str:
    """What people see beside the application in YARN's own pages."""
    return report.failure.reason if report.failure else report.state.value
