"""A simulated cluster in memory that performs the state machine's actions, with fault injection.

It simulates the scheduler, executors and user programs; the caller picks the order of their events, and may delay,
repeat or drop them. It uses no clock and no process. `Guarantees` are checked with every event.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.support.guarantees import BrokenGuaranteeError, Guarantees
from tony.core import actions as act
from tony.core import events as ev
from tony.core.application import Application
from tony.core.sentences import describe_opening
from tony.model.failure import Failure
from tony.model.ids import TaskId
from tony.model.job_spec import JobSpec
from tony.model.program_exit import ExitReason, ExitStatus

#: Commands to an executor.
Command = act.Renew | act.Start | act.Stop


@dataclass(slots=True)
class Program:
    """One user process of the simulation."""

    task: TaskId
    session: int
    try_: int

    @property
    def name(self) -> tuple[int, int]:
        """The session and the task attempt."""
        return self.session, self.try_


@dataclass(slots=True)
class SimulatedExecutor:
    """One executor of the simulation.

    Attributes:
        session: the newest one that it has prepared.
        stopped: the highest session and task attempt that it was asked to stop.
        done: every session and task attempt that it was asked to start.
        connected: commands reach it and its reports arrive.
        frozen: it does nothing; commands to it are queued.
        told: commands queued until it thaws.
        said: reports queued until it is connected and thawed.
    """

    task: TaskId
    container: str
    incarnation: str
    session: int
    program: Program | None = None
    stopped: tuple[int, int] = (0, 0)
    done: set[tuple[int, int]] = field(default_factory=set)
    connected: bool = True
    frozen: bool = False
    told: deque[Command] = field(default_factory=deque)
    said: deque[ev.Event] = field(default_factory=deque)


@dataclass(slots=True)
class Pending:
    """An event on its way to the machine; `source` is the container whose executor reports it."""

    event: ev.Event
    source: str | None = None


class Simulation:
    """One job on the simulated cluster.

    Args:
        gangs: whether the scheduler grants whole gangs; enlists: executors start before they know their task.

    Attributes:
        pending: events on their way to the machine, which the caller delivers in any order.
        log: every event handled, with its time; digests: the machine's after each of them.
        containers: id -> role, of the containers that are granted and running.
        executors: container -> its executor.
        finished: the Finish action, once the machine has returned it.
        stubborn: tasks whose programs ignore the command to stop.
        unlaunchable: tasks whose programs cannot be started.
        guarantees: checked with every event.
        deaf: the scheduler ignores requests to end containers until `hear` is called.
        dies: called with the number of each logged event; returns True if the AM dies then.
        deaths: how often the AM died.
        given_up: container on a node that the scheduler has given up -> when the lease of its executor expires.
        programs: number of program starts, by task and session.
        late: executors reconnect to the next AM attempt only after it has closed its reconciliation.
        cut_off: containers in a network partition: their executors do not find the next AM attempt.
    """

    def __init__(
        self,
        spec: JobSpec,
        capacity: int = 1_000_000,
        *,
        gangs: bool = True,
        enlists: bool = False,
        job_id: str = "sim",
    ) -> None:
        self.app = Application(job_id, spec)
        self._gangs, self._enlists = gangs, enlists
        self._settings = ""
        self.now = 0.0
        self.capacity = capacity
        self.pending: list[Pending] = []
        self.log: list[tuple[ev.Event, float]] = []
        self.digests: list[str] = []
        self.containers: dict[str, str] = {}
        self.executors: dict[str, SimulatedExecutor] = {}
        self.demand: dict[str, int] = {}
        self.finished: act.Finish | None = None
        self.actions: list[act.Action] = []
        self.stubborn: set[TaskId] = set()
        self.unlaunchable: set[TaskId] = set()
        self.deaf = False
        self.dies: Callable[[int], bool] | None = None
        self.deaths = 0
        self.given_up: dict[str, float] = {}
        self.programs: Counter[str] = Counter()
        self.late = False
        self.cut_off: set[str] = set()
        self._unheard: dict[str, str] = {}
        self.guarantees = Guarantees(self.app)
        self._made = 0
        self._wake: act.WakeAt | None = None

    # --- driving --------------------------------------------------------------------------------------------------

    def begin(self, settings: str = "x") -> None:
        """Start the first AM attempt."""
        self._settings = settings
        self._begin_attempt(1)

    def deliver(self, event: ev.Event) -> list[act.Action]:
        """Handle one event, check every promise, and perform the actions."""
        for container in [name for name, until in self.given_up.items() if until <= self.now]:
            self.expire(container)
        actions = self.app.handle(event, self.now)
        self.log.append((event, self.now))
        self.digests.append(self.guarantees.handled(event, self.now, actions))
        if isinstance(event, ev.ContainersFound):
            self._doubt()
            self._send(ev.ReconcileClosed())
        if isinstance(event, ev.ReconcileClosed) and self.late:
            self.come_back()
        if self.dies and self.dies(len(self.log)):
            self.die()
            return []
        self.actions += actions
        for action in actions:
            self._perform(action)
        return actions

    def die(self) -> None:
        """Kill the AM after it logged an event and before the effects, and start the next AM attempt.

        Events on their way to it are lost; executors keep them, since none was acknowledged.
        """
        self.deaths += 1
        for executor in self.executors.values():
            executor.connected = False
            executor.told.clear()
            unheard = [p.event for p in self.pending if p.source == executor.container]
            executor.said.extendleft(reversed(unheard))
        self.pending.clear()
        self._wake = None
        self.app = Application(self.app.state.job_id, self.app.state.spec)
        for event, at in self.log:
            self.app.handle(event, at)
        if self.app.compute_digest() != self.digests[-1]:
            raise BrokenGuaranteeError("the state that the next AM attempt recovered from the log differs")
        self.guarantees.succeeded_by(self.app)
        attempt = self.app.state.attempt + 1
        self._begin_attempt(attempt)

    def _begin_attempt(self, attempt: int) -> None:
        self.deliver(
            ev.AttemptStarted(
                attempt=attempt,
                wall=1000.0,
                settings=self._settings,
                pid=attempt,
                host="am",
                gangs=self._gangs,
                enlists=self._enlists,
            )
        )

    def deliver_pending(self, index: int = 0, *, twice: bool = False) -> None:
        """Deliver one pending event; with `twice`, queue a second copy."""
        pending = self.pending.pop(index % len(self.pending))
        if twice and not isinstance(pending.event, ev.SessionOpened):
            self.pending.append(pending)
        self.deliver(pending.event)

    def run(self, until: Callable[[], bool] | None = None, limit: int = 100_000) -> None:
        """Deliver all events in order until none is pending; do not wait for deadlines."""
        for _ in range(limit):
            if not self.pending or (until and until()):
                return
            self.deliver_pending()
        raise BrokenGuaranteeError("the job does not come to rest")

    def advance(self) -> bool:
        """Advance the time to the machine's next deadline; return False if there is none."""
        wake, self._wake = self._wake, None
        if wake is None:
            return False
        self.now = max(self.now, wake.at)
        self.deliver(ev.DeadlinePassed(deadline=wake.deadline))
        return True

    @property
    def wakes_at(self) -> float | None:
        """The time of the machine's next deadline; None if there is none."""
        return self._wake.at if self._wake else None

    @property
    def failure(self) -> Failure:
        """Why the job has failed."""
        assert self.finished is not None
        assert self.finished.failure is not None
        return self.finished.failure

    def settle(self, limit: int = 10_000) -> None:
        """Deliver events and advance the time until the job has finished."""
        for _ in range(limit):
            self.run()
            if self.finished or not self.advance():
                return
        raise BrokenGuaranteeError("the job does not end")

    # --- user programs and faults ---------------------------------------------------------------------------------

    def running(self) -> list[Program]:
        """Return the running programs."""
        return [e.program for e in self.executors.values() if e.program]

    def exit(self, task: TaskId, status: ExitStatus) -> None:
        """End the program of a task."""
        for executor in self.executors.values():
            if executor.task == task and executor.program:
                self._exited(executor, status)
                return
        raise LookupError(f"{task} does not run")

    def lose(self, container: str, cause: str = "lost", *, silent: bool = False, blameless: bool = False) -> None:
        """Lose a container and all processes in it; pending reports still arrive, unless `silent`."""
        self.executors.pop(container, None)
        if self.containers.pop(container, None) is not None:
            if silent:
                self.pending = [p for p in self.pending if p.source != container]
            known = ev.EndConfirmation.SILENT if silent else ev.EndConfirmation.ENDED
            ended = ev.ContainerEnded(container=container, cause=cause, confirmation=known, blameless=blameless)
            self._send(ended)
            self.grant()

    def give_up(self, container: str, lease: float, contact: float) -> None:
        """Let the scheduler give up a node: its container's exit is unconfirmed, and its executor may still run."""
        if self.containers.pop(container, None) is not None:
            ended = ev.ContainerEnded(
                container=container,
                cause="its node is lost",
                blameless=True,
                confirmation=ev.EndConfirmation.UNCONFIRMED,
                contact=contact,
                lease=lease,
            )
            self.given_up[container] = contact + lease
            self._send(ended)
            self.grant()

    def expire(self, container: str) -> None:
        """Expire the lease of an unreachable executor: it has stopped its program and exited."""
        self.given_up.pop(container, None)
        self.executors.pop(container, None)

    def hear(self) -> None:
        """Let the scheduler perform the requests that it ignored while it was deaf."""
        self.deaf = False
        while self._unheard:
            self.lose(*self._unheard.popitem())

    def refuse(self, container: str) -> None:
        """Fail the launch in a granted container."""
        if self.containers.pop(container, None) is not None:
            self._send(ev.ActionFailed(action="launch", cause="it was refused", container=container))
            self.grant()

    def freeze(self, container: str) -> None:
        """Suspend an executor and its program."""
        self.executors[container].frozen = True

    def thaw(self, container: str) -> None:
        """Resume an executor: it performs the queued commands and sends its queued reports."""
        executor = self.executors[container]
        executor.frozen = False
        while executor.told and executor.container in self.executors:
            self._obey(executor, executor.told.popleft())
        self._speak(executor)

    def fall_silent(self, container: str) -> None:
        """Report to the AM that heartbeats of an executor are missing."""
        executor = self.executors[container]
        silent = ev.Silent(
            task=executor.task, incarnation=executor.incarnation, silence=25.0, container=executor.container
        )
        self._send(silent)

    def disconnect(self, container: str) -> None:
        """Break the connection: commands on it are lost, reports are kept and sent again."""
        executor = self.executors[container]
        executor.connected = False
        executor.told.clear()

    def reconnect(self, container: str) -> None:
        """Reconnect an executor and repeat the commands that it may have missed; end it if the AM refuses it."""
        executor = self.executors[container]
        if not self.app.accepts(executor.task, container, executor.incarnation):
            self.lose(container, "its executor was refused")
            return
        executor.connected = True
        self._speak(executor)
        for action in self.app.find_reattach_actions(container, executor.incarnation):
            if isinstance(action, act.Release):  # the program was to be killed, and was not
                self._exited(executor, ExitStatus(reason=ExitReason.STOPPED, signal="SIGTERM"))
            self._perform(action)

    # --- performing -----------------------------------------------------------------------------------------------

    def _send(self, event: ev.Event, source: str | None = None) -> None:
        self.pending.append(Pending(event, source))

    def _perform(self, action: act.Action) -> None:
        match action:
            case act.Reconcile():
                self._reconcile()
            case act.OpenSession(session=session, reason=reason):
                if self.running():
                    raise BrokenGuaranteeError(f"session {session} opens while programs are running")
                self._send(ev.SessionOpened(session=session, reason=describe_opening(reason)))
            case act.SetDemand(role=role, total=total):
                self.demand[role] = total
                self.grant()
            case act.Launch(container=container, task=task, session=session):
                self._launch(container, task, session)
            case act.Renew() | act.Start() | act.Stop():
                self._command(action)
            case act.Publish(spec=spec):
                said = ev.GangSizeSet.from_cluster(self.app.state.spec, spec)
                if said:
                    self._send(said)
            case act.Release(container=container):
                executor = self.executors.get(container)
                if executor and executor.program:
                    raise BrokenGuaranteeError(f"{container} is released while {executor.task} runs in it")
                self._end(container, "released")
            case act.Kill(container=container, reason=reason):
                executor = self.executors.get(container)
                unaware = executor and executor.program and executor.stopped < executor.program.name
                if executor and unaware and "stop" in reason and executor.connected and not executor.frozen:
                    raise BrokenGuaranteeError(f"{executor.task} is killed, but never received the command to stop")
                self._end(container, "killed")
            case act.WakeAt():
                self._wake = action
            case act.Finish():
                left = [e for e in self.executors.values() if e.program and e.container not in self.given_up]
                if (left and not self.deaf) or self.finished:
                    raise BrokenGuaranteeError("the job finished while programs were running, or twice")
                self.finished = action

    def _reconcile(self) -> None:
        """Drop containers without an executor, which do not outlive an AM attempt, and report the others."""
        for container in [c for c in self.containers if c not in self.executors]:
            del self.containers[container]
        if self.deaths:
            self.demand.clear()
        if not self.late:
            self.come_back()
        self._send(ev.ContainersFound(containers=tuple(self.containers)))

    def _doubt(self) -> None:
        """Report unconfirmed ends again: the previous AM attempt may have died before it logged them."""
        for container, until in list(self.given_up.items()):
            held = self.app.state.containers.get(container)
            if held and not held.is_end_unconfirmed and container in self.executors:
                gone = ev.ContainerEnded(
                    container=container,
                    cause="nothing proves its end",
                    blameless=True,
                    confirmation=ev.EndConfirmation.UNCONFIRMED,
                    contact=until,
                )
                self.deliver(gone)

    def come_back(self) -> None:
        """Reconnect the executors that lost their AM to the next AM attempt."""
        for container in list(self.executors):
            if not self.executors[container].connected and container not in self.cut_off:
                self.reconnect(container)

    def _end(self, container: str, cause: str) -> None:
        if container not in self.containers:
            return  # it has ended, or cannot be reached
        if self.deaf:
            self._unheard[container] = cause
        else:
            self.lose(container, cause)

    def grant(self) -> None:
        """Grant the demand, up to the capacity."""
        for role, total in self.demand.items():
            held = sum(1 for r in self.containers.values() if r == role)
            while held < total and len(self.containers) < self.capacity:
                self._made += 1
                held += 1
                self.containers[f"c-{self._made}"] = role
                self._send(ev.Granted(container=f"c-{self._made}", role=role, host="h"))

    def _launch(self, container: str, task: TaskId, session: int) -> None:
        if container not in self.containers:
            self._send(ev.ActionFailed(action="launch", cause="it is gone", container=container))
        elif container not in self.executors:
            executor = SimulatedExecutor(task, container, f"i-{container}", session)
            self.executors[container] = executor
            self._register(executor)

    # --- executors ------------------------------------------------------------------------------------------------

    def _command(self, command: Command) -> None:
        """Send a command to an executor: a broken connection loses it, a frozen executor queues it."""
        container = self.app.state.tasks[command.task].container
        executor = self.executors.get(container) if container else None
        if executor is None or not executor.connected:
            return
        if executor.frozen:
            executor.told.append(command)
        else:
            self._obey(executor, command)

    def _obey(self, executor: SimulatedExecutor, command: Command) -> None:
        match command:
            case act.Renew(session=session):
                self._renew(executor, session)
            case act.Start():
                self._start(executor, command)
            case act.Stop(session=session, try_=try_):
                self._stop(executor, session, try_)

    def _say(self, executor: SimulatedExecutor, event: ev.Event) -> None:
        executor.said.append(event)
        self._speak(executor)

    def _speak(self, executor: SimulatedExecutor) -> None:
        while executor.said and executor.connected and not executor.frozen:
            self._send(executor.said.popleft(), executor.container)

    def _register(self, executor: SimulatedExecutor) -> None:
        self._say(
            executor,
            ev.Registered(
                task=executor.task,
                container=executor.container,
                incarnation=executor.incarnation,
                session=executor.session,
                address=f"h:{executor.container[2:]}",
                pid=100,
            ),
        )

    def _renew(self, executor: SimulatedExecutor, session: int) -> None:
        if session > executor.session:
            if executor.program:
                raise BrokenGuaranteeError(f"{executor.task} is renewed while its program runs")
            executor.session = session
            self._register(executor)

    def _start(self, executor: SimulatedExecutor, action: act.Start) -> None:
        if (action.session, action.try_) in executor.done or action.session < executor.session:
            return
        if action.session > executor.session:
            raise BrokenGuaranteeError(f"{executor.task} is started for a session that it was not prepared for")
        if any(p.session != action.session for p in self.running()):
            raise BrokenGuaranteeError("programs of two sessions at one time")
        if executor.program:
            raise BrokenGuaranteeError(f"{executor.task} is started while its last task attempt runs")
        executor.done.add((action.session, action.try_))
        program = Program(action.task, action.session, action.try_)
        if executor.stopped >= program.name:
            self._report_exit(executor, program, ExitStatus(reason=ExitReason.NOT_STARTED))
        elif action.task in self.unlaunchable:
            status = ExitStatus(reason=ExitReason.LAUNCH_FAILED, message="no such command")
            self._report_exit(executor, program, status)
        else:
            executor.program = program
            self.programs[f"{action.task} in session {action.session}"] += 1
            said = ev.Started(task=action.task, session=action.session, try_=action.try_, pid=self._made + 1)
            self._say(executor, said)

    def _stop(self, executor: SimulatedExecutor, session: int, try_: int) -> None:
        executor.stopped = max(executor.stopped, (session, try_))
        program = executor.program
        if program and program.name <= (session, try_) and executor.task not in self.stubborn:
            self._exited(executor, ExitStatus(reason=ExitReason.STOPPED, signal="SIGTERM"))

    def _exited(self, executor: SimulatedExecutor, status: ExitStatus) -> None:
        program, executor.program = executor.program, None
        if program:
            self._report_exit(executor, program, status)

    def _report_exit(self, executor: SimulatedExecutor, program: Program, status: ExitStatus) -> None:
        role = self.app.state.spec.effective_roles[program.task.role]
        exports = dict.fromkeys(role.exports, f"{program.task} in session {program.session}")
        self._say(
            executor,
            ev.Exited(
                task=program.task,
                session=program.session,
                try_=program.try_,
                status=status,
                at=self.now,
                exports=exports if status.reason is ExitReason.EXITED else {},
            ),
        )
