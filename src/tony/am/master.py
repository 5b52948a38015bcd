"""The only loop: takes events in, performs the machine's actions, and keeps the order that makes recovery possible.

For every batch of events: append each to the log, let the machine handle it, flush the log once, then perform the
actions and acknowledge the reports. So an effect is never seen before its cause is recorded.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence, Set
from functools import partial
from typing import Any

from tony import clock
from tony.am.durability_barrier import DurabilityBarrier
from tony.am.executor_connections import Executors
from tony.am.job_clock import JobClock
from tony.am.launch_context import build_container_setup, executor_lease, task_part
from tony.am.metrics_store import MetricsStore
from tony.am.notifications import Notifications
from tony.am.recovery import known_containers
from tony.am.start_messages import StartMessages
from tony.am.subscribers import Subscribers
from tony.core import actions as act
from tony.core import events as ev
from tony.core.application import Application
from tony.core.gang_size import gathered, sizes_text
from tony.core.report_builder import Live, ReportContext, report
from tony.dataclass import replace
from tony.errors import InfraError, NotInCharge
from tony.frameworks.base import Framework
from tony.history.event_log import LogWriter
from tony.model.exit_status import ExitStatus
from tony.model.ids import TaskId
from tony.model.job_report import JobReport
from tony.protocol import messages as msg
from tony.protocol.error_codes import Code
from tony.protocol.hello import PeerKind
from tony.protocol.launch import JobCredentials
from tony.rpc.connection import RpcConnection
from tony.schedulers.interface import ContainerAllocator, PreparedJob

log = logging.getLogger(__name__)

#: Events between two digests in the log, at least; of a larger job as many as it has tasks. So the cost of a digest,
#: about 4 µs a task, is spread over as many events.
SNAPSHOT_EVERY = 2000
#: Seconds, beyond the stop grace, that a released executor has to end by itself.
RELEASE_PATIENCE = 5.0
#: Seconds between two questions for the end of containers that were given up.
_PROOF_PAUSE = 3.0
#: Seconds in which the watchdog of an executor that died has ended its program.
_WATCHDOG_PAUSE = 1.0


class Master:
    """One attempt at running one job.

    Args:
        app: the machine, with all that earlier attempts have logged.
        writer: this attempt's event log.
        address: where executors reach this program; known for certain once the server listens.
    """

    def __init__(
        self,
        job: PreparedJob,
        app: Application,
        credentials: JobCredentials,
        framework: Framework,
        source: ContainerAllocator,
        writer: LogWriter,
        job_clock: JobClock,
        attempt: int,
        address: str,
    ) -> None:
        self.job = job
        self.app = app
        self._credentials = credentials
        self._source = source
        self._writer = writer
        self._clock = job_clock
        self._attempt = attempt
        self.address = address
        self._inbox: deque[ev.Event] = deque()
        self._scheduled = True  # until `run`: whatever comes before waits for the attempt's own first event
        self._since_snapshot = 0
        self._snapshot_every = max(SNAPSHOT_EVERY, len(self.app.state.tasks))
        self._framework = framework
        self._starts = StartMessages(job.record, framework, attempt)
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._finished: asyncio.Future[act.Finish] = asyncio.get_running_loop().create_future()
        self._company = asyncio.Event()
        self._doubted = asyncio.Event()
        if any(held.presumed for held in app.state.containers.values()):
            self._doubted.set()
        self._came: Callable[[TaskId], None] = lambda task: None
        self._prepared: dict[TaskId, Live] = {}
        self.executors = Executors(self.app, attempt, self.feed, job_clock.now)
        self.executors.in_charge, self.executors.overlap = source.in_charge, source.overlap
        self.measurements = MetricsStore(app.state, job_clock.now, job.folder.metrics, late=attempt > 1)
        self.executors.measured = self.measurements.came
        self.executors.find_step_age = self.measurements.find_step_age
        self.executors.sample_interval = self.measurements.interval
        self.executors.step_interval = self.measurements.step_interval
        self.watchers = Subscribers(self.report)
        self.notices = Notifications(job.record.spec.notify, job.record.job_id, attempt, self.report)
        self.barrier = DurabilityBarrier(self._perform_all)
        self.executors.expect()
        if len(self.executors):
            self._company.set()

    async def run(self, started: ev.AttemptStarted) -> act.Finish:
        """Runs the job to its end. Whatever was fed before comes after `started`.

        Raises:
            SchedulerError: the scheduler cannot be used at all.
            StorageError: the event log cannot be written.
        """
        self._inbox.appendleft(started)
        asyncio.get_running_loop().call_soon(self._drain)
        self._spawn(self._watch_liveness())
        self._spawn(self._call_together())
        self._spawn(self._seek_proof())
        self._spawn(self.measurements.keep())
        try:
            return await self._finished
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            if self._timer:
                self._timer.cancel()

    def report(self) -> JobReport:
        """The job as it stands."""
        record = self.job.record
        around = ReportContext(
            folder=str(self.job.folder.path),
            user=record.user,
            submitted=record.submitted,
            live={**self._prepared, **self.executors.live()},
        )
        return report(self.app, self._clock.now(), around)

    # --- events in ------------------------------------------------------------------------------------------------

    def feed(self, event: ev.Event) -> None:
        """Takes an event; it is handled soon, in order, together with what else comes until then."""
        self._inbox.append(event)
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._drain)

    def _drain(self) -> None:
        self._scheduled = False
        if self._finished.done():
            self._inbox.clear()
            return
        try:
            actions = self._handle_all()
            self._writer.flush()
            reports = self.executors.unacknowledged()
            told = partial(self.executors.acknowledge, reports)
            self.barrier.pass_on(self._writer.size, actions, told, news=bool(reports))
        except Exception as error:  # the outermost place of the loop: the job must end with a verdict
            if not self._finished.done():
                self._finished.set_exception(error)
            return
        self.watchers.changed()

    def _handle_all(self) -> list[act.Action]:
        actions: list[act.Action] = []
        while self._inbox:
            event = self._inbox.popleft()
            if isinstance(event, ev.ContainerEnded):
                event = self._informed(event)
            self._log_event(event)
            actions += self._handle(event)
        if self._since_snapshot >= self._snapshot_every:
            actions += self._handle(ev.Snapshot(digest=self.app.digest()))
            self._since_snapshot = 0
        return actions

    def _informed(self, event: ev.ContainerEnded) -> ev.ContainerEnded:
        """What only we know of a container's end."""
        if event.presumed:  # its executor may live, and even talk with us
            self._doubted.set()
            spec = self.job.record.spec
            lease = executor_lease(spec, self._source.lease)
            return replace(event, contact=self.executors.contact(event.container), lease=lease)
        if not self.executors.container_ended(event.container):
            return replace(event, silent=True)
        return event

    def _handle(self, event: ev.Event) -> list[act.Action]:
        now = self._clock.now()
        self._writer.append(event, now, clock.wall())
        self._since_snapshot += 1
        actions = self.app.handle(event, now)
        for action in actions:
            if isinstance(action, act.Verdict):
                actions = [*actions, *self._handle(_on_failure_classified(action))]
        return actions

    def _log_event(self, event: ev.Event) -> None:
        match event:
            case ev.Exited(task=task, session=session, status=ExitStatus() as status):
                log.info("%s of session %d ended: %s", task, session, status.describe())
            case ev.ContainerEnded(container=container, cause=cause):
                held = self.app.state.containers.get(container)
                log.info("container %s (%s) ended: %s", container, held and held.task, cause)
            case ev.UserCommand(actor=actor, what=what):
                log.info("%s asked for: %s", actor, what)
            case _:
                log.debug("event %s", event)

    # --- actions out ----------------------------------------------------------------------------------------------

    def in_safety(self, size: int) -> None:
        """The journal has so many bytes of the log: what waited for that is done."""
        try:
            self.barrier.safe(size)
        except Exception as error:  # as in `_drain`
            if not self._finished.done():
                self._finished.set_exception(error)

    def _perform_all(self, actions: Sequence[act.Action], told: Callable[[], None]) -> None:
        told()
        for action in actions:
            self._perform(action)

    def _perform(self, action: act.Action) -> None:
        log.debug("action %s", action)
        match action:
            case act.Reconcile():
                self._spawn(self._reconcile())
            case act.SetDemand(role=role, total=total):
                self._source.set_demand(role, total)
            case act.Launch():
                self._spawn(self._launch(action))
            case act.Renew(task=task, session=session):
                self.executors.send(task, msg.Prepare(session=session))
            case act.Publish(spec=spec):
                self._starts.publish(spec)
                said = gathered(self.job.record.spec, spec)
                if said:
                    log.info("session %d has %s", spec.session, sizes_text(said.tasks, said.absent))
                    self.feed(said)
            case act.Start(session=session):
                self._start(action)
                self.notices.started(session)
            case act.Stop(task=task, session=session, try_=try_, grace=grace, reason=reason):
                self.executors.send(task, msg.StopProgram(session=session, try_=try_, grace=grace, reason=reason))
            case act.Release(container=container):
                self._release(container)
            case act.Kill(container=container, reason=reason):
                log.warning("ending container %s: %s", container, reason)
                self._source.kill(container, reason)
            case act.Exclude(host=host):
                self._source.exclude(host)
            case act.Include(host=host):
                self._source.include(host)
            case act.OpenSession(session=session, reason=reason):
                log.info("session %d opens: %s", session, reason)
                self.watchers.tell_now()  # how the last one ended: soon every task begins anew
                self.feed(ev.SessionOpened(session=session, reason=reason))
                if session > 1:
                    self.notices.restarted(reason)
            case act.Verdict(failure=failure, decision=decision, reason=reason):
                log.warning("%s -> %s (%s)", failure.reason, decision, reason)
                if decision == "retry":
                    self.notices.restarted(failure.reason)
            case act.WakeAt(at=at, name=name):
                self._wake_at(at, name)
            case act.Finish():
                self._writer.append(ev.Snapshot(digest=self.app.digest()), self._clock.now(), clock.wall())
                if not self._finished.done():
                    self._finished.set_result(action)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._spawned)

    def _spawned(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error and not self._finished.done():
            self._finished.set_exception(error)

    async def _call_together(self) -> None:
        """Executors of earlier attempts on other machines do not know where we are."""
        while addresses := {task: place for task, place in self.executors.expected if place}:
            from tony.am.reattach_caller import ReattachCaller  # late: most masters are the first and only ones

            patience = self.job.record.spec.heartbeat_timeout
            calls: ReattachCaller[TaskId] = ReattachCaller(self._credentials.am, self._attempt, self.address, patience)
            self._came = calls.attached
            await calls.call_all(addresses)
            if calls.superseded:
                raise NotInCharge(f"executors have obeyed a later application master than attempt {self._attempt}")

    async def _reconcile(self) -> None:
        await self._source.open(self.feed)
        found = await self._source.recover(known_containers(self.app))
        await self._prove_ends(set(found))
        self.feed(ev.ContainersFound(containers=tuple(found)))
        self.feed(ev.ReconcileClosed())
        await self._source.watch()

    async def _prove_ends(self, found: Set[str]) -> None:
        """A container that the scheduler does not know may run on where the cluster has given up its node."""
        same_host = self._source.capabilities.same_host  # there it knows its processes
        missing = {
            task.container: task.listens
            for task in self.app.state.tasks.values()
            if task.living and task.container and task.container not in found and (task.listens or not same_host)
        }
        proven = await self._gone(missing)
        for container in missing.keys() - proven:
            held = self.app.state.containers.get(container)
            if held and not held.presumed:
                cause = f"the cluster does not know it any more, and nothing on {held.host} proves that it has ended"
                self.feed(ev.ContainerEnded(container=container, cause=cause, blameless=True, presumed=True))

    async def _gone(self, places: Mapping[str, str]) -> Set[str]:
        """Of containers, by where their executors listen, those whose host says twice that nobody listens any more.

        The pause is for the watchdog of an executor that has just died.
        """
        from tony.am.reattach_caller import find_refused  # late: as above

        asked = {container: place for container, place in places.items() if place}
        for pause in (0.0, _WATCHDOG_PAUSE):
            if asked:
                await asyncio.sleep(pause)
                refused = await find_refused(list(asked.values()))
                asked = {name: asked[name] for name, is_refused in zip(asked, refused, strict=True) if is_refused}
        return asked.keys()

    async def _seek_proof(self) -> None:
        """Asks again and again for the ends of containers that were given up: with a proof nobody waits for a lease."""
        while True:
            await self._doubted.wait()
            await asyncio.sleep(_PROOF_PAUSE)
            state = self.app.state
            given_up = [held for held in state.containers.values() if held.presumed and held.task]
            places = {held.id: state.tasks[held.task].listens for held in given_up if held.task}
            for container in await self._gone(places):
                cause = "its node was given up, and its executor is gone there"
                self.feed(ev.ContainerEnded(container=container, cause=cause, blameless=True))
            if not given_up:
                self._doubted.clear()

    async def _launch(self, action: act.Launch) -> None:
        part = task_part(self.job.record, self._framework, self._attempt, action, self.address, self._source.lease)
        self._prepared[action.task] = Live(preparing=build_container_setup(self.job.record, action.task.role))
        try:
            await self._source.launch(action.container, part, self._credentials.executors)
        except InfraError as error:
            log.warning("container %s for %s was not launched: %s", action.container, action.task, error)
            self.feed(
                ev.ActionFailed(action=action.kind, cause=str(error), container=action.container, task=action.task)
            )
        finally:
            self._prepared.pop(action.task, None)

    def _start(self, action: act.Start) -> None:
        self.executors.send_frame(action.task, self._starts.frame(action))

    def _release(self, container: str) -> None:
        held = self.app.state.containers.get(container)
        grace = 0.0
        if held and held.task:
            grace = self.job.record.spec.stop_grace_of(held.task.role)
            self.executors.send(held.task, msg.ReleaseExecutor(grace=grace))
        self._source.release(container, grace + RELEASE_PATIENCE)

    def _wake_at(self, at: float, name: str) -> None:
        if self._timer:
            self._timer.cancel()
        delay = max(0.0, at - self._clock.now())
        self._timer = asyncio.get_running_loop().call_later(delay, self._wake, at, name)

    def _wake(self, at: float, name: str) -> None:
        """Timers of the loop may fire a little early by our own clock; the machine would not take that."""
        if self._clock.now() < at:
            self._wake_at(at, name)
        elif name in self.app.state.timers:  # the last deadline of all may be cancelled, and no other takes its place
            self.feed(ev.Deadline(name=name))

    # --- the wire -------------------------------------------------------------------------------------------------

    def connected(self, connection: RpcConnection) -> None:
        """A peer has proved itself. It speaks first."""

    def received(self, connection: RpcConnection, message: msg.Message) -> None:
        """A message of a peer that has proved itself."""
        if self.executors.tunnels.carry(connection, message):
            return
        if connection.kind is PeerKind.EXECUTOR:
            self._from_executor(connection, message)
        else:
            self._from_client(connection, message)

    def closed(self, connection: RpcConnection, reason: str) -> None:
        """A peer is gone."""
        self.watchers.remove(connection)
        self.executors.closed(connection)
        self.executors.logs.closed(connection)
        self.executors.tunnels.closed(connection)
        self.executors.stacks.closed(connection)

    def _from_executor(self, connection: RpcConnection, message: msg.Message) -> None:
        if isinstance(message, msg.Attach):
            peer = self.executors.attach(connection, message)
            if peer:
                self._company.set()
                self._came(peer.task)
                wanted = self.app.wanted(peer.container, peer.incarnation)
                self.barrier.pass_on(self._writer.size, wanted, _nobody_waits, news=False)
        elif isinstance(message, msg.JoinTunnel):
            self.executors.tunnels.join(connection, message)
        elif not self.executors.received(connection, message):
            connection.refuse(Code.BAD_MESSAGE, f"{message.kind} before attach")

    def _from_client(self, connection: RpcConnection, message: msg.Message) -> None:
        match message:
            case msg.GetReport():
                connection.send(msg.Report(report=self.report()))
            case msg.Watch(gather=gather, ages=ages):
                self.watchers.add(connection, gather, ages=ages)
                self._company.set()
            case msg.KillJob(actor=actor, now=at_once):
                self._ordered(actor, "kill-now" if at_once else "kill")
                connection.send(msg.Done())
            case msg.RestartJob(actor=actor):
                if self.app.state.may_be_restarted:
                    self._ordered(actor, "restart")
                    connection.send(msg.Done())
                else:
                    now = self.app.state.job.value
                    connection.refuse(Code.BUSY, f"there is no session that could be restarted: the job is {now}")
            case msg.GetMetrics():
                connection.send(self.measurements.answer(message))
            case msg.GetStacks(actor=actor):
                task = self.executors.stacks.ask(connection, message)
                if task:
                    self._ordered(actor, f"stacks of {task}")
            case msg.SetLogLevel(level=level, actor=actor) if level in msg.LOG_LEVELS:
                logging.getLogger("tony").setLevel(level.upper())
                self.executors.talk_as(level)
                if actor:
                    self._ordered(actor, f"log level {level}")
                connection.send(msg.Done())
            case msg.ReadLog():
                self.executors.logs.ask(connection, message)
            case msg.DropLog():
                self.executors.logs.drop(connection, message)
            case msg.OpenTunnel():
                self.executors.tunnels.open(connection, message)
            case _:
                connection.refuse(Code.BAD_MESSAGE, f"a client may not send {message.kind}")

    def _ordered(self, actor: str, what: str) -> None:
        """Somebody asks for something: an event, whether or not anything is decided by it."""
        who = "".join(char for char in actor if char.isprintable())[:200]
        self.feed(ev.UserCommand(actor=who, what=what))

    async def _watch_liveness(self) -> None:
        """Looks on for as long as there is anybody to look at, or anybody who looks."""
        while True:
            await self._company.wait()
            await asyncio.sleep(self.executors.interval)
            self.executors.check()
            self.watchers.aged()
            if not len(self.executors) and not len(self.watchers):
                self._company.clear()


def _on_failure_classified(verdict: act.Verdict) -> ev.Judged:
    failure = verdict.failure
    task = TaskId.parse(failure.task) if failure.task else None
    return ev.Judged(task=task, failure=failure.reason, decision=verdict.decision, reason=verdict.reason)


def _nobody_waits() -> None:
    """No report has led to this."""
