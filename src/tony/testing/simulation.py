"""A cluster in memory that performs the machine's actions, with faults and bad luck on order.

It answers what a scheduler, executors and user programs would, in an order that the caller picks: late, twice, never.
No clock, no process. What it holds on to while it runs are the promises the machine makes to the world (`Promises`).
"""

from __future__ import annotations

from collections.abc import Callable

from tony.core import actions as act
from tony.core import events as ev
from tony.core.invariants import broken
from tony.core.machine import Application
from tony.dataclass import dataclass, field
from tony.model.exit import ExitReason, ExitStatus
from tony.model.ids import TaskId
from tony.model.job import JobSpec


@dataclass(slots=True)
class Program:
    """One user process of the simulation."""

    task: TaskId
    session: int
    try_: int


@dataclass(slots=True)
class Executor:
    """One executor of the simulation.

    Attributes:
        stopped: the highest session it was told to stop.
    """

    task: TaskId
    container: str
    incarnation: str
    session: int
    program: Program | None = None
    stopped: int = 0
    done: set[tuple[int, int]] = field(default_factory=set)


@dataclass(slots=True)
class Pending:
    """An event on its way to the machine."""

    event: ev.Event


class BrokenPromiseError(AssertionError):
    """The machine broke a promise."""


class Simulation:
    """One job on the simulated cluster.

    Attributes:
        pending: what is on its way to the machine; the caller delivers in any order.
        log: every event handled, with its time.
        finished: the Finish action, once it came.
        stubborn: tasks whose programs do not mind being told to stop.
        unlaunchable: tasks whose programs cannot be started.
    """

    def __init__(self, spec: JobSpec, capacity: int = 1_000_000) -> None:
        self.app = Application("sim", spec)
        self.now = 0.0
        self.capacity = capacity
        self.pending: list[Pending] = []
        self.log: list[tuple[ev.Event, float]] = []
        self.containers: dict[str, str] = {}
        self.executors: dict[str, Executor] = {}
        self.demand: dict[str, int] = {}
        self.finished: act.Finish | None = None
        self.actions: list[act.Action] = []
        self.stubborn: set[TaskId] = set()
        self.unlaunchable: set[TaskId] = set()
        self._made = 0
        self._wake: act.WakeAt | None = None

    # --- driving --------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Starts the first attempt."""
        self.deliver(ev.AttemptStarted(attempt=1, wall=1000.0, settings="x", pid=1, host="am"))

    def deliver(self, event: ev.Event) -> list[act.Action]:
        """Feeds one event, checks every invariant, performs what comes out."""
        actions = self.app.handle(event, self.now)
        self.log.append((event, self.now))
        wrong = broken(self.app)
        if wrong:
            raise BrokenPromiseError("; ".join(wrong))
        if any(isinstance(action, act.Finish) for action in actions[:-1]):
            raise BrokenPromiseError("something is asked for after the end")
        self.actions += actions
        for action in actions:
            self._perform(action)
        return actions

    def deliver_pending(self, index: int = 0, *, twice: bool = False) -> None:
        """Delivers one of the events on their way, perhaps a second copy later."""
        pending = self.pending.pop(index % len(self.pending))
        if twice and not isinstance(pending.event, ev.SessionOpened):
            self.pending.append(Pending(pending.event))
        self.deliver(pending.event)

    def run(self, until: Callable[[], bool] | None = None, limit: int = 100_000) -> None:
        """Delivers everything in order until nothing is on its way (deadlines are not waited for)."""
        for _ in range(limit):
            if not self.pending or (until and until()):
                return
            self.deliver_pending()
        raise BrokenPromiseError("the job does not come to rest")

    def advance(self) -> bool:
        """Lets time pass until the machine's next deadline; False if it waits for none."""
        wake, self._wake = self._wake, None
        if wake is None:
            return False
        self.now = max(self.now, wake.at)
        self.deliver(ev.Deadline(name=wake.name))
        return True

    def settle(self, limit: int = 10_000) -> None:
        """Runs and lets time pass until the job has ended."""
        for _ in range(limit):
            self.run()
            if self.finished or not self.advance():
                return
        raise BrokenPromiseError("the job does not end")

    # --- user programs and faults ---------------------------------------------------------------------------------

    def running(self) -> list[Program]:
        """Programs that run now."""
        return [e.program for e in self.executors.values() if e.program]

    def exit(self, task: TaskId, status: ExitStatus) -> None:
        """The program of a task ends."""
        for executor in self.executors.values():
            if executor.task == task and executor.program:
                self._exited(executor, status)
                return
        raise LookupError(f"{task} does not run")

    def lose(self, container: str, cause: str = "lost") -> None:
        """A container goes away with everything in it; reports on their way still arrive."""
        if self.containers.pop(container, None) is not None:
            self.executors.pop(container, None)
            self.pending.append(Pending(ev.ContainerEnded(container=container, cause=cause)))
            self.grant()

    # --- performing -----------------------------------------------------------------------------------------------

    def _perform(self, action: act.Action) -> None:
        match action:
            case act.Reconcile():
                self.pending += [Pending(ev.ContainersFound(containers=())), Pending(ev.ReconcileClosed())]
            case act.OpenSession(session=session, reason=reason):
                if self.running():
                    raise BrokenPromiseError(f"session {session} opens while programs run")
                self.pending.append(Pending(ev.SessionOpened(session=session, reason=reason)))
            case act.SetDemand(role=role, total=total):
                self.demand[role] = total
                self.grant()
            case act.Launch(container=container, task=task, session=session):
                self._launch(container, task, session)
            case act.Renew(task=task, session=session):
                self._renew(task, session)
            case act.Start():
                self._start(action)
            case act.Stop(task=task, session=session):
                self._stop(task, session)
            case act.Release(container=container):
                executor = self.executors.get(container)
                if executor and executor.program:
                    self._exited(executor, ExitStatus(reason=ExitReason.STOPPED, signal="SIGTERM"))
                self.lose(container, "released")
            case act.Kill(container=container, reason=reason):
                executor = self.executors.get(container)
                if executor and executor.program and "stop" in reason and executor.stopped < executor.program.session:
                    raise BrokenPromiseError(f"{executor.task} is killed for not stopping, and was not told to")
                self.lose(container, "killed")
            case act.WakeAt():
                self._wake = action
            case act.Finish():
                if self.running() or self.finished:
                    raise BrokenPromiseError("finished with programs running, or twice")
                self.finished = action

    def grant(self) -> None:
        """Grants what is demanded, as far as there is room."""
        for role, total in self.demand.items():
            held = sum(1 for r in self.containers.values() if r == role)
            while held < total and len(self.containers) < self.capacity:
                self._made += 1
                held += 1
                self.containers[f"c-{self._made}"] = role
                self.pending.append(Pending(ev.Granted(container=f"c-{self._made}", role=role, host="h")))

    def _launch(self, container: str, task: TaskId, session: int) -> None:
        if container not in self.containers:
            self.pending.append(Pending(ev.ActionFailed(action="launch", cause="it is gone", container=container)))
        elif container not in self.executors:
            executor = Executor(task, container, f"i-{container}", session)
            self.executors[container] = executor
            self._register(executor)

    def _register(self, executor: Executor) -> None:
        self.pending.append(
            Pending(
                ev.Registered(
                    task=executor.task,
                    container=executor.container,
                    incarnation=executor.incarnation,
                    session=executor.session,
                    address=f"h:{executor.container[2:]}",
                    pid=100,
                )
            )
        )

    def _executor_of(self, task: TaskId) -> Executor | None:
        container = self.app.state.tasks[task].container
        return self.executors.get(container) if container else None

    def _renew(self, task: TaskId, session: int) -> None:
        executor = self._executor_of(task)
        if executor and session > executor.session:
            if executor.program:
                raise BrokenPromiseError(f"{task} is renewed while its program runs")
            executor.session = session
            self._register(executor)

    def _start(self, action: act.Start) -> None:
        executor = self._executor_of(action.task)
        if executor is None or (action.session, action.try_) in executor.done:
            return
        if any(p.session != action.session for p in self.running()):
            raise BrokenPromiseError("programs of two sessions at one time")
        executor.done.add((action.session, action.try_))
        program = Program(action.task, action.session, action.try_)
        if executor.stopped >= action.session:
            self._report_exit(program, ExitStatus(reason=ExitReason.NOT_STARTED))
            return
        if action.task in self.unlaunchable:
            self._report_exit(program, ExitStatus(reason=ExitReason.LAUNCH_FAILED, message="no such command"))
            return
        executor.program = program
        self.pending.append(
            Pending(ev.Started(task=action.task, session=action.session, try_=action.try_, pid=self._made + 1))
        )

    def _stop(self, task: TaskId, session: int) -> None:
        executor = self._executor_of(task)
        if executor:
            executor.stopped = max(executor.stopped, session)
            if executor.program and executor.program.session <= session and task not in self.stubborn:
                self._exited(executor, ExitStatus(reason=ExitReason.STOPPED, signal="SIGTERM"))

    def _exited(self, executor: Executor, status: ExitStatus) -> None:
        program, executor.program = executor.program, None
        if program:
            self._report_exit(program, status)

    def _report_exit(self, program: Program, status: ExitStatus) -> None:
        self.pending.append(
            Pending(
                ev.Exited(task=program.task, session=program.session, try_=program.try_, status=status, at=self.now)
            )
        )
