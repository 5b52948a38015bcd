"""The main loop: takes events, performs the state machine's actions, and keeps the order that makes recovery possible.

For every batch of events: append each to the log, let the state machine handle it, flush the log once, then perform
the actions and acknowledge the reports. So an effect is never visible before its cause is recorded.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, assert_never

from tony import clock
from tony.am.durability_barrier import DurabilityBarrier
from tony.am.executor_connections import Executors
from tony.am.executor_instructions import StartMessages, build_container_setup, build_task_part, compute_executor_lease
from tony.am.metrics_store import MetricsStore
from tony.am.notifications import Notifications
from tony.am.recovery import find_known_containers
from tony.am.remote_program_requests import RemoteProgramRequests
from tony.am.stall_watch import StallWatch
from tony.am.straggler_watch import StragglerWatch
from tony.am.subscribers import Subscribers
from tony.am.unconfirmed_ends import UnconfirmedEnds
from tony.clock import JobClock
from tony.core import actions as act
from tony.core import events as ev
from tony.core.application import Application
from tony.core.deadline import Deadline
from tony.core.report_builder import Live, ReportContext, build_report
from tony.core.sentences import describe_opening, describe_stop, format_sizes
from tony.errors import AttemptSupersededError, InfraError, SchedulerError
from tony.frameworks.framework_interface import Framework
from tony.history.event_log import LogWriter
from tony.model.actor import Actor
from tony.model.ids import TaskId
from tony.model.job_report import JobReport
from tony.model.program_exit import ExitStatus
from tony.protocol.client_messages import GetMetrics, GetReport, GetStacks, KillJob, Report, RestartJob, Watch
from tony.protocol.error_codes import Code
from tony.protocol.executor_messages import Assigned, Attach, Enlist, Prepare, ReleaseExecutor, StopProgram
from tony.protocol.hello import PeerKind
from tony.protocol.launch import JobCredentials
from tony.protocol.message_base import Message
from tony.protocol.output_messages import DropLog, ReadLog
from tony.protocol.remote_program_messages import RunInTask
from tony.protocol.shared_messages import LOG_LEVELS, Done, SetLogLevel
from tony.protocol.tunnel_messages import JoinTunnel, OpenTunnel
from tony.rpc.connection import RpcConnection
from tony.schedulers.allocator_interface import NOT_LISTENING, AmAddresses, ContainerAllocator
from tony.schedulers.client_interface import PreparedJob

log = logging.getLogger(__name__)

#: Minimum number of events between two digests in the log; in a larger job as many as it has tasks, so that the cost of
#: a digest, about 4 µs a task, is spread over as many events.
SNAPSHOT_INTERVAL_EVENTS = 2000
#: Seconds, beyond the stop grace, that a released executor has to exit by itself.
RELEASE_TIMEOUT_SECONDS = 5.0
#: Maximum length of a user's name.
_MAX_NAME = 200


class JobFinishedError(Exception):
    """The job has ended as the state machine decided: it ends the attempt's tasks, and is no failure."""

    def __init__(self, finish: act.Finish) -> None:
        super().__init__(finish)
        self.finish = finish


class Master:
    """One AM attempt of a job.

    Args:
        app: the state machine, with all that earlier attempts have logged.
        writer: this attempt's event log; its header was written.
        tasks: holds all tasks of the attempt. The first exception ends it, `JobFinishedError` as any other.
    """

    def __init__(
        self,
        job: PreparedJob,
        app: Application,
        credentials: JobCredentials,
        framework: Framework,
        allocator: ContainerAllocator,
        writer: LogWriter,
        job_clock: JobClock,
        attempt: int,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self.job = job
        self.app = app
        self._credentials = credentials
        self._allocator = allocator
        self._writer = writer
        self._clock = job_clock
        self._attempt = attempt
        self._addresses = NOT_LISTENING  # until `start`
        self._tasks = tasks
        self._inbox: deque[ev.Event] = deque()
        self._has_work = asyncio.Event()
        self._since_snapshot = 0
        self._snapshot_every = max(SNAPSHOT_INTERVAL_EVENTS, len(self.app.state.tasks))
        self._framework = framework
        self._starts = StartMessages(job.record, framework, attempt)
        self._timer: asyncio.TimerHandle | None = None
        self._finish: act.Finish | None = None
        self._unconfirmed_ends = UnconfirmedEnds(app, self.feed, same_host=allocator.capabilities.same_host)
        self._on_attached: Callable[[TaskId], None] = lambda task: None
        self._in_setup: dict[str, TaskId] = {}  # container -> its task
        save_copy = allocator.store_metrics if allocator.stores_metrics else None
        now, late = job_clock.now, attempt > 1
        self.metrics = MetricsStore(app.state, now, job.folder.metrics, late=late, save_copy=save_copy)
        is_current, overlap = allocator.is_current_attempt, allocator.overlap
        keep, limit = allocator.store_output, allocator.output_limit
        self.executors = Executors(app, attempt, self.feed, now, self.metrics, is_current, overlap, keep, limit)
        self._remote_programs = RemoteProgramRequests(self.executors.tunnels)
        self.subscribers = Subscribers(self.build_report)
        self.notifications = Notifications(job.record.spec.notify, job.record.job_id, attempt, self.build_report)
        self._stalls = StallWatch(
            app.state,
            self.metrics,
            self.executors.stacks,
            self.feed,
            now,
            self.executors.find_last_output,
            self.executors.find_last_line,
            self.notifications.on_stalled,
        )
        self._stragglers = StragglerWatch(app.state, self.metrics, self.feed, now, self.notifications.on_straggler)
        journal = allocator.journal(job.folder.events(attempt), self.on_durable)
        self._barrier = DurabilityBarrier(self._perform_all, journal)

    def start(self, started: ev.AttemptStarted, addresses: AmAddresses) -> None:
        """Start the tasks that run the job to its end. Events fed before are handled after `started`.

        `SchedulerError` ends them if the scheduler cannot be used at all, `StorageError` if the event log cannot be
        written.

        Args:
            addresses: where executors, clients and browsers reach this AM.
        """
        self._addresses = addresses
        self._inbox.appendleft(started)
        self._has_work.set()
        for work in (
            self._handle_events(),
            self._barrier.watch(),
            self._watch_liveness(),
            self._call_executors(),
            self._unconfirmed_ends.confirm(),
            self.metrics.keep(),
        ):
            self._tasks.create_task(work)

    def start_task(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a further task, unless the attempt is ending: messages and signals still arrive then."""
        try:
            self._tasks.create_task(work)
        except RuntimeError:  # the group has ended
            work.close()

    def build_report(self) -> JobReport:
        """Return the current report of the job."""
        record = self.job.record
        setup = {
            task: Live(preparing=self._allocator.find_start_failure(name) or build_container_setup(record, task.role))
            for name, task in self._in_setup.items()
        }
        context = ReportContext(
            folder=str(self.job.folder.path),
            user=record.user,
            submitted=record.submitted,
            job_file=record.job_file,
            live=setup | self.executors.collect_live(),
            find_progress=self.metrics.find_progress,
            find_resumption=self.metrics.find_resumption,
        )
        return build_report(self.app, self._clock.now(), context)

    # --- events in ------------------------------------------------------------------------------------------------

    def feed(self, event: ev.Event) -> None:
        """Queue an event; it is handled soon, in order, together with others that arrive until then."""
        self._inbox.append(event)
        self._has_work.set()

    async def _handle_events(self) -> None:
        try:
            while self._finish is None:
                await self._has_work.wait()
                self._has_work.clear()
                if self._inbox and self._finish is None:
                    self._handle_batch()
        finally:
            if self._timer:
                self._timer.cancel()
        raise JobFinishedError(self._finish)

    def _handle_batch(self) -> None:
        actions = self._handle_all()
        self._writer.flush()
        reports = self.executors.take_unacknowledged()
        acknowledge = partial(self.executors.acknowledge, reports) if reports else None
        self._barrier.submit(self._writer.size, actions, acknowledge)
        self.subscribers.on_change()

    def _handle_all(self) -> list[act.Action]:
        actions: list[act.Action] = []
        while self._inbox:
            event = self._inbox.popleft()
            if isinstance(event, ev.ContainerEnded):
                event = self._complete(event)
            self._log_event(event)
            actions += self._handle(event)
        if self._since_snapshot >= self._snapshot_every:
            actions += self._handle(ev.Snapshot(digest=self.app.compute_digest()))
            self._since_snapshot = 0
        return actions

    def _complete(self, event: ev.ContainerEnded) -> ev.ContainerEnded:
        """Add what only the AM knows of a container's end."""
        if event.is_unconfirmed:  # its executor may be running, and even be connected
            self._unconfirmed_ends.on_unconfirmed()
            spec = self.job.record.spec
            lease = compute_executor_lease(spec, self._allocator.lease)
            return replace(event, contact=self.executors.find_last_contact(event.container), lease=lease)
        if not self.executors.on_container_ended(event.container):
            return replace(event, confirmation=ev.EndConfirmation.SILENT)
        return event

    def _handle(self, event: ev.Event) -> list[act.Action]:
        now = self._clock.now()
        self._writer.append(event, now, clock.wall())
        self._since_snapshot += 1
        actions = self.app.handle(event, now)
        for action in actions:
            if isinstance(action, act.ReportFailure):
                actions = [*actions, *self._handle(_on_failure_classified(action))]
        return actions

    def _log_event(self, event: ev.Event) -> None:
        match event:
            case ev.Exited(task=task, session=session, status=ExitStatus() as status):
                log.info("%s of session %d ended: %s", task, session, status.describe())
            case ev.ContainerEnded(container=container, cause=cause):
                held = self.app.state.containers.get(container)
                log.info("container %s (%s) ended: %s", container, held and held.task, cause)
            case ev.JobRequest(actor=actor, what=what):
                log.info("%s requested: %s", actor, what)
            case _:
                log.debug("event %s", event)

    # --- actions out ----------------------------------------------------------------------------------------------

    def on_durable(self, size: int) -> None:
        """Handle that the first `size` bytes of the log are durable: perform the actions that waited for them."""
        try:
            self._barrier.on_durable(size)
        except Exception as error:  # a callback's error must end the attempt, too
            self.start_task(_raise(error))

    def _perform_all(self, actions: Sequence[act.Action]) -> None:
        for action in actions:
            self._perform(action)

    def _perform(self, action: act.Action) -> None:
        log.debug("action %s", action)
        match action:
            case act.Reconcile():
                self.start_task(self._reconcile())
            case act.SetDemand(role=role, total=total):
                self._allocator.set_demand(role, total)
            case act.SetMemory(role=role, memory=memory):
                self._allocator.set_memory(role, memory)
            case act.Launch():
                self.start_task(self._launch(action))
            case act.Renew(task=task, session=session):
                self.executors.send(task, Prepare(session=session))
            case act.Publish(spec=spec):
                self._starts.publish(spec)
                if size := ev.GangSizeSet.from_cluster(self.job.record.spec, spec):
                    log.info("session %d has %s", spec.session, format_sizes(size.tasks, size.absent))
                    self.feed(size)
            case act.Start(session=session):
                self._start(action)
                self.notifications.on_started(session)
            case act.Stop(task=task, session=session, try_=try_, grace=grace, reason=reason):
                sentence = describe_stop(reason)
                self.executors.send(task, StopProgram(session=session, try_=try_, grace=grace, reason=sentence))
            case act.Release(container=container):
                self._release(container)
            case act.Kill(container=container, reason=reason):
                log.warning("killing container %s: %s", container, reason)
                self._allocator.kill(container, reason)
            case act.Exclude(host=host):
                self._allocator.exclude(host)
            case act.Include(host=host):
                self._allocator.include(host)
            case act.StartRequestedProgram(number=number):
                self._remote_programs.start(number)
            case act.OpenSession(session=session, reason=reason):
                sentence = describe_opening(reason)
                log.info("session %d opens: %s", session, sentence)
                self.subscribers.send_now()  # the end of the last session: soon every task is reset
                self.feed(ev.SessionOpened(session=session, reason=sentence))
                if session > 1:
                    self.notifications.on_restarted(sentence)
            case act.ReportFailure(failure=failure, decision=decision, reason=reason):
                log.warning("%s -> %s (%s)", failure.reason, decision, reason)
                if decision is ev.FailureResponse.RETRY:
                    self.notifications.on_restarted(failure.reason)
            case act.WakeAt(at=at, deadline=deadline):
                self._wake_at(at, deadline)
            case act.Finish():
                self._writer.append(ev.Snapshot(digest=self.app.compute_digest()), self._clock.now(), clock.wall())
                self._finish = action
                self._has_work.set()
            case _:
                assert_never(action)

    async def _call_executors(self) -> None:
        """Call executors of earlier AM attempts on other machines, which do not know the new address."""
        while addresses := {task: place for task, place in self.executors.expected if place}:
            from tony.am.reattach_caller import ReattachCaller  # late: most jobs have a single AM attempt

            timeout = self.job.record.spec.heartbeat_timeout
            calls = ReattachCaller(self._credentials.am, self._attempt, self._addresses.am, timeout)
            self._on_attached = calls.on_attached
            await calls.call_all(addresses)
            if calls.superseded:
                raise AttemptSupersededError(f"executors have obeyed a later AM attempt than {self._attempt}")

    async def _reconcile(self) -> None:
        await self._allocator.open(self.feed, self._addresses)
        found = await self._allocator.recover(find_known_containers(self.app))
        await self._unconfirmed_ends.report_missing(set(found))
        self.feed(ev.ContainersFound(containers=tuple(found)))
        self.feed(ev.ReconcileClosed())
        await self._allocator.watch()

    async def _launch(self, action: act.Launch) -> None:
        part = build_task_part(
            self.job.record, self._framework, self._attempt, action, self._addresses.am, self._allocator.lease
        )
        self._in_setup[action.container] = action.task
        try:
            await self._allocator.launch(action.container, part, self._credentials.executors)
        except InfraError as error:
            log.warning("container %s for %s was not launched: %s", action.container, action.task, error)
            self.feed(
                ev.ActionFailed(action=action.kind, cause=str(error), container=action.container, task=action.task)
            )
        finally:
            self._in_setup.pop(action.container, None)

    def _start(self, action: act.Start) -> None:
        self.executors.send_frame(action.task, self._starts.encode(action))

    def _release(self, container: str) -> None:
        held = self.app.state.containers.get(container)
        grace = 0.0
        if held and held.task:
            grace = self.job.record.spec.stop_grace_of(held.task.role)
            self.executors.send(held.task, ReleaseExecutor(grace=grace))
        self._allocator.release(container, grace + RELEASE_TIMEOUT_SECONDS)

    def _wake_at(self, at: float, deadline: Deadline) -> None:
        if self._timer:
            self._timer.cancel()
        delay = max(0.0, at - self._clock.now())
        self._timer = asyncio.get_running_loop().call_later(delay, self._wake, at, deadline)

    def _wake(self, at: float, deadline: Deadline) -> None:
        """Feed a deadline, or wait again: timers of the loop may fire slightly early."""
        if self._clock.now() < at:
            self._wake_at(at, deadline)
        elif deadline in self.app.state.timers:  # the last deadline may have been cancelled without a new one
            self.feed(ev.DeadlinePassed(deadline=deadline))

    # --- the wire -------------------------------------------------------------------------------------------------

    def on_connected(self, connection: RpcConnection) -> None:
        """Handle an authenticated peer. It sends first."""

    def on_message(self, connection: RpcConnection, message: Message) -> None:
        """Handle a message of an authenticated peer."""
        if self.executors.tunnels.carry(connection, message):
            return
        if connection.kind is PeerKind.EXECUTOR:
            self._from_executor(connection, message)
        else:
            self._from_client(connection, message)

    def on_closed(self, connection: RpcConnection, reason: str) -> None:
        """Handle a closed connection."""
        self.subscribers.remove(connection)
        self.executors.on_closed(connection)
        self.executors.logs.on_closed(connection)
        self.executors.tunnels.on_closed(connection)
        self.executors.stacks.on_closed(connection)
        self._remote_programs.on_closed(connection)

    def _from_executor(self, connection: RpcConnection, message: Message) -> None:
        if isinstance(message, Attach):
            peer = self.executors.attach(connection, message)
            if peer:
                self._on_attached(peer.task)
                self._allocator.on_attached(peer.container)
                reattach_actions = self.app.find_reattach_actions(peer.container, peer.incarnation)
                self._barrier.submit(self._writer.size, reattach_actions)
        elif isinstance(message, Enlist):
            self.start_task(self._enlist(connection, message))
        elif isinstance(message, JoinTunnel):
            self.executors.tunnels.join(connection, message)
        elif not self.executors.on_message(connection, message):
            connection.refuse(Code.BAD_MESSAGE, f"{message.kind} before attach")

    async def _enlist(self, connection: RpcConnection, message: Enlist) -> None:
        """Give an executor its task, once it has one."""
        try:
            launch = await self._allocator.enlist(message.container, message.process)
        except SchedulerError as error:
            connection.refuse(Code.STALE, str(error))
        else:
            connection.send(Assigned(launch=launch))

    def _from_client(self, connection: RpcConnection, message: Message) -> None:
        match message:
            case GetReport():
                connection.send(Report(report=self.build_report()))
            case Watch(ages=ages):
                self.subscribers.add(connection, ages=ages)
            case KillJob(actor=actor, now=at_once):
                self.feed(ev.KillRequested(actor=_parse_user(actor), now=at_once))
                connection.send(Done())
            case RestartJob(actor=actor):
                if self.app.state.may_be_restarted:
                    self.feed(ev.RestartRequested(actor=_parse_user(actor)))
                    connection.send(Done())
                else:
                    now = self.app.state.job.value
                    connection.refuse(Code.BUSY, f"there is no session to restart: the job is {now}")
            case GetMetrics():
                connection.send(self.metrics.answer(message))
            case GetStacks(actor=actor):
                task = self.executors.stacks.on_request(connection, message)
                if task:
                    self.feed(ev.StacksRequested(actor=_parse_user(actor), task=task))
            case SetLogLevel(level=level, actor=actor) if level in LOG_LEVELS:
                logging.getLogger("tony").setLevel(level.upper())
                self.executors.set_log_level(level)
                if actor:
                    self.feed(ev.LogLevelRequested(actor=_parse_user(actor), level=level))
                connection.send(Done())
            case ReadLog():
                self.executors.logs.on_request(connection, message)
            case DropLog():
                self.executors.logs.drop(connection, message)
            case OpenTunnel():
                self.executors.tunnels.open(connection, message)
            case RunInTask(actor=actor):
                requested = self._remote_programs.on_request(connection, message, _parse_user(actor))
                if requested:
                    self.feed(requested)
            case _:
                connection.refuse(Code.BAD_MESSAGE, f"a client may not send {message.kind}")

    async def _watch_liveness(self) -> None:
        while True:
            await asyncio.sleep(self.executors.interval)
            self.executors.check()
            self._stalls.check()
            self._stragglers.check()
            self.subscribers.on_time_passed()


def _on_failure_classified(action: act.ReportFailure) -> ev.FailureClassified:
    failure = action.failure
    return ev.FailureClassified(
        task=failure.task,
        failure=failure.reason,
        decision=action.decision,
        reason=action.reason,
        memory=action.memory,
    )


def _parse_user(name: str) -> Actor:
    return Actor("".join(char for char in name if char.isprintable())[:_MAX_NAME])


async def _raise(error: Exception) -> None:
    raise error
