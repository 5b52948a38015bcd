"""Run a fault plan on `simulation.py`: no process, no clock, thousands of plans a minute.

Faults without a counterpart are ignored: watchdogs, fork server and supervisor, disks, slowness. A stream that loses a
message breaks, and is restored at once.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from tests.support.faults.plan import (
    Delay,
    Drop,
    Duplicate,
    EventStage,
    FaultPlan,
    Kill,
    Partition,
    ProcessKind,
    Stop,
    Traffic,
    Within,
)
from tests.support.faults.schedule import Conductor, Injection
from tests.support.guarantees import BrokenGuaranteeError
from tests.support.simulation import Pending, Program, SimulatedExecutor, Simulation
from tony.core import events as ev
from tony.core.actions import Finish
from tony.model.exit_status import ExitReason, ExitStatus
from tony.model.ids import TaskId

#: Returns the exit status of a program, or None to let it run.
Ends = Callable[[Program], ExitStatus | None]

_KILLED = ExitStatus(reason=ExitReason.EXITED, signal="SIGKILL")
#: Cause of the end of a container whose executor was killed.
_EXECUTOR_KILLED = "its executor was killed by SIGKILL"


def rehearse(simulation: Simulation, plan: FaultPlan, ends: Ends, limit: int = 20_000) -> Finish:
    """Run a job to its end under a plan; start it if necessary.

    Faults without an end are undone when nothing else can happen, as `FaultInjector` does on close.

    Args:
        ends: called for running programs when nothing else happens.

    Raises:
        BrokenGuaranteeError: the machine violated a guarantee, or the job does not finish.
    """
    return _Rehearsal(simulation, plan, ends).run(limit)


class _Rehearsal:
    def __init__(self, simulation: Simulation, plan: FaultPlan, ends: Ends) -> None:
        self._simulation = simulation
        self._conductor = Conductor(plan)
        self._ends = ends
        self._inside = {
            planned.moment.seq: planned.moment.stage
            for planned in plan.faults
            if isinstance(planned.moment, Within) and isinstance(planned.harm, Kill)
        }
        self._chance = random.Random(plan.seed)
        self._seen = 0
        self._lasting: dict[int, Injection] = {}
        self._hit: dict[int, str] = {}
        self._silent_at: dict[str, float] = {}
        self._stopped: set[str] = set()  # containers
        simulation.dies = self._dies

    def run(self, limit: int) -> Finish:
        simulation = self._simulation
        if not simulation.log:
            simulation.begin()
        for _ in range(limit):
            self._look()
            if simulation.finished:
                return simulation.finished
            if not (self._deliver() or self._end_program() or self._pass_time() or self._undo_all()):
                raise BrokenGuaranteeError(f"the job does not end; it is {simulation.app.state.job}")
        raise BrokenGuaranteeError("the job does not come to rest")

    # --- deaths of the AM -----------------------------------------------------------------------------------------

    def _dies(self, number: int) -> bool:
        """Return True if the AM dies after it logged this event and before the effects."""
        return self._inside.get(number) is EventStage.LOGGED and bool(self._inside.pop(number))

    def _dies_before(self) -> bool:
        number = len(self._simulation.log) + 1
        return self._inside.get(number) in (EventStage.UNWRITTEN, EventStage.TORN) and bool(self._inside.pop(number))

    def _dies_after(self) -> bool:
        number = len(self._simulation.log)
        return self._inside.get(number) is EventStage.HALF_DONE and bool(self._inside.pop(number))

    def _die(self) -> None:
        if self._simulation.finished is None:
            self._simulation.die()

    # --- steps ----------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Pass new events to the schedule, and perform what is due."""
        simulation = self._simulation
        while self._seen < len(simulation.log):
            event, at = simulation.log[self._seen]
            self._seen += 1
            self._conductor.saw(self._seen, at, event, simulation.app.state)
        for injection in list(self._conductor.due(simulation.now, simulation.app.state)):
            if injection.over:
                self._undo(injection.number)
            else:
                self._begin(injection)

    def _deliver(self) -> bool:
        simulation = self._simulation
        if not simulation.pending:
            return False
        if self._dies_before():
            self._die()
            return True
        index = self._next()
        executor = self._source(simulation.pending[index])
        if executor and self._falls(executor.task, Drop, Traffic.REPORTS):
            self._break(executor)
            return True
        broken = [each for each in self._executors() if self._falls(each.task, Drop, Traffic.COMMANDS)]
        for each in broken:
            simulation.disconnect(each.container)
        twice = executor is not None and self._falls(executor.task, Duplicate, Traffic.REPORTS)
        simulation.deliver_pending(index, twice=twice)
        for each in broken:
            if each.container in simulation.executors and not each.connected:
                simulation.reconnect(each.container)
        if self._dies_after():
            self._die()
        return True

    def _next(self) -> int:
        """Return the index of the next event: the oldest, or if that is delayed, the oldest of another source."""
        pending = self._simulation.pending
        executor = self._source(pending[0])
        if executor and self._falls(executor.task, Delay, Traffic.REPORTS):
            return next((n for n, each in enumerate(pending) if each.source != pending[0].source), 0)
        return 0

    def _end_program(self) -> bool:
        for program in sorted(self._simulation.running(), key=lambda each: (each.task, each.session, each.try_)):
            executor = self._executor(program.task)
            if executor is None or executor.frozen or executor.container in self._stopped:
                continue
            if status := self._ends(program):
                self._simulation.exit(program.task, status)
                return True
        return False

    def _pass_time(self) -> bool:
        """Advance the time to the next deadline, fault or missed heartbeat."""
        simulation = self._simulation
        wake, planned = simulation.wakes_at, self._conductor.next_at
        silence = min(self._silent_at.values(), default=None)
        soonest = min((at for at in (wake, planned, silence) if at is not None), default=None)
        if soonest is None:
            return False
        if soonest == wake:
            return simulation.advance()
        simulation.now = max(simulation.now, soonest)
        for container, at in list(self._silent_at.items()):
            if at <= simulation.now:
                del self._silent_at[container]
                if container in simulation.executors:
                    simulation.fall_silent(container)
        return True

    # --- faults --------------------------------------------------------------------------------------------------

    def _begin(self, injection: Injection) -> None:
        harm, target = injection.planned.harm, injection.target
        if target.part is ProcessKind.MASTER:
            self._inject_into_am(injection)
            return
        executor = self._executor(target.task) if target.task else None
        if executor is None:
            return  # no executor; unlike a process, it will not appear in a moment
        self._lasting[injection.number], self._hit[injection.number] = injection, executor.container
        match harm, target.part:
            case Kill(), ProcessKind.PROGRAM if executor.program and not executor.frozen:
                self._simulation.exit(executor.task, _KILLED)
            case Kill(), ProcessKind.EXECUTOR:
                self._simulation.lose(executor.container, _EXECUTOR_KILLED)
            case Stop(), ProcessKind.PROGRAM:
                self._stopped.add(executor.container)
            case Stop(), ProcessKind.EXECUTOR:
                self._simulation.freeze(executor.container)
                self._expect_silence(executor)
            case Partition(), _:
                self._cut_off(executor)
            case Drop(share=1.0, traffic=traffic), _:
                if traffic is Traffic.HEARTBEATS:
                    self._expect_silence(executor)
                else:
                    self._cut_off(executor)

    def _inject_into_am(self, injection: Injection) -> None:
        match injection.planned.harm:
            case Kill():
                self._die()
            case Stop() if injection.planned.lasts is not None:
                self._simulation.now += injection.planned.lasts

    def _undo(self, number: int) -> None:
        injection, container = self._lasting.pop(number, None), self._hit.pop(number, "")
        executor = self._simulation.executors.get(container)
        if injection is None or executor is None:
            return
        others = [self._lasting[n] for n, hit in self._hit.items() if hit == container]
        match injection.planned.harm, injection.target.part:
            case Stop(), ProcessKind.PROGRAM:
                self._stopped.discard(container)
            case Stop(), ProcessKind.EXECUTOR if not any(isinstance(each.planned.harm, Stop) for each in others):
                self._simulation.thaw(container)
                self._silent_at.pop(container, None)
            case (Partition() | Drop(), _) if not any(_cuts_off(each) for each in others):
                self._simulation.cut_off.discard(container)
                self._silent_at.pop(container, None)
                if not executor.connected:
                    self._simulation.reconnect(container)

    def _undo_all(self) -> bool:
        lasting = list(self._lasting)
        for number in lasting:
            self._undo(number)
        return bool(lasting)

    # --- the network ----------------------------------------------------------------------------------------------

    def _cut_off(self, executor: SimulatedExecutor) -> None:
        self._take_back(executor)
        self._simulation.disconnect(executor.container)
        self._simulation.cut_off.add(executor.container)
        self._expect_silence(executor)

    def _break(self, executor: SimulatedExecutor) -> None:
        """Break the connection, and restore it."""
        self._take_back(executor)
        self._simulation.disconnect(executor.container)
        self._simulation.reconnect(executor.container)

    def _take_back(self, executor: SimulatedExecutor) -> None:
        """Return the undelivered reports to the executor, which sends them again."""
        pending = self._simulation.pending
        executor.said.extendleft(reversed([each.event for each in pending if each.source == executor.container]))
        pending[:] = [each for each in pending if each.source != executor.container]

    def _expect_silence(self, executor: SimulatedExecutor) -> None:
        timeout = self._simulation.app.state.spec.heartbeat_timeout
        self._silent_at.setdefault(executor.container, self._simulation.now + timeout)

    def _falls(self, task: TaskId, harm: type[Drop | Delay | Duplicate], traffic: Traffic) -> bool:
        """Return True if a message of a task has this kind of fault."""
        for injection in self._lasting.values():
            found = injection.planned.harm
            if not isinstance(found, harm) or injection.target.task != task:
                continue
            meant = found.traffic in (traffic, Traffic.MESSAGES if traffic is Traffic.REPORTS else traffic)
            if meant and found.share < 1 and self._chance.random() < found.share:
                return True
        return False

    # --- executors ------------------------------------------------------------------------------------------------

    def _executors(self) -> Iterator[SimulatedExecutor]:
        return (each for each in list(self._simulation.executors.values()) if each.connected and not each.frozen)

    def _executor(self, task: TaskId) -> SimulatedExecutor | None:
        found = self._simulation.app.state.tasks.get(task)
        return self._simulation.executors.get(found.container) if found and found.container else None

    def _source(self, pending: Pending) -> SimulatedExecutor | None:
        """Return the executor whose report it is, if it may be delayed, duplicated or lost."""
        if pending.source is None or isinstance(pending.event, ev.ContainerEnded):
            return None
        return self._simulation.executors.get(pending.source)


def _cuts_off(injection: Injection) -> bool:
    harm = injection.planned.harm
    return isinstance(harm, Partition) or (isinstance(harm, Drop) and harm.share >= 1)
