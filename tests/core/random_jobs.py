"""Random jobs, and random lives of them on the simulated cluster. All chance comes from one place: a number is a life.

A life has its own mixture of faults: some kinds not at all, others often. So each kind also meets the others in
lives where nothing else hides what it does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import TypeVar

from tests.core.specs import COLLISION, FAILED, OK, SEGV
from tests.support.simulation import SimulatedExecutor, Simulation
from tony.core import events as ev
from tony.core.deadline import Deadline, DeadlineKind
from tony.core.state_digest import build_fingerprint
from tony.model.actor import Actor
from tony.model.ids import TaskId
from tony.model.job_spec import GIB, JobSpec, MemoryGrowth, Role, TimeoutAfter, Timeouts
from tony.model.program_exit import ExitReason, ExitStatus
from tony.model.setting_choices import (
    AfterCondition,
    DistributedMode,
    FailurePolicy,
    OnTimeout,
    RestartScope,
    RoleKind,
    StopOn,
)
from tony.model.states import JobState
from tony.schedulers.local.claims.peak_demand import compute_peak

T = TypeVar("T")

#: What ends many a job before anything else can happen: rare.
_DECISIVE = ("die", "kill", "never", "lose", "give up", "refuse", "silent", "unlaunchable", "jump")

_NAMES = ("chief", "worker", "ps", "evaluator")
MEMORY = ExitStatus(reason=ExitReason.MEMORY, signal="SIGKILL", message="reached its memory limit of 1 GiB")
OUTSIDE = ExitStatus(reason=ExitReason.STOPPED, signal="SIGTERM")
_STATUSES = (OK, OK, OK, FAILED, SEGV, COLLISION, MEMORY, OUTSIDE)
#: Events that the machine itself asks for, one at a time: no other component makes them, and none comes twice.
_ASKED_FOR = (ev.AttemptStarted, ev.ContainersFound, ev.ReconcileClosed, ev.SessionOpened)


def random_job(chance: Random) -> JobSpec:
    """Roles of every kind, in any order, under any policy."""
    names = chance.sample(_NAMES, chance.randint(1, len(_NAMES)))
    roles: dict[str, Role] = {}
    for index, name in enumerate(names):
        before = [other for other in names[:index] if chance.random() < 0.3]
        late = index and chance.random() < 0.3
        roles[name] = Role(
            instances=chance.randint(1, 3),
            kind=chance.choice(list(RoleKind)) if index else RoleKind.TRACKED,
            after={other: chance.choice(list(AfterCondition)) for other in before},
            stop_on_failure=chance.random() < 0.1,
            timeout_after=TimeoutAfter(group="first", limit=5.0, on_timeout=chance.choice(list(OnTimeout)))
            if late
            else None,
            stop_grace=chance.choice((None, None, 0.0, 3.0)),
            restart=chance.choice((RestartScope.SESSION, RestartScope.SESSION, RestartScope.TASK)),
            max_restarts=chance.choice((None, None, 0, 1, 2)),
            no_retry_on=chance.choice((None, None, None, (), (2, 1))),
            exports={f"FROM_{name}": "result: "} if chance.random() < 0.2 else {},
        )
    mode = chance.choice(list(DistributedMode))
    return JobSpec(
        command="x",
        roles={name: _perhaps_fewer(chance, _possible(role, roles), mode) for name, role in roles.items()},
        groups={"first": (names[0],)},
        max_restarts=chance.randint(0, 3),
        backoff=chance.choice((0.0, 1.0, 20.0)),
        framework=chance.choice(("none", "tensorflow")),
        restart_window=chance.choice((None, None, 1.0, 100.0)),
        no_retry_on=chance.choice(((), (), (), (1,))),
        min_uptime=chance.choice((None, None, 1.0, 60.0)),
        restart_grace=chance.choice((None, None, 0.0)),
        stop_on=chance.choice(list(StopOn)),
        gang_patience=chance.choice((None, 1.0, 10.0, 60.0)),
        gang_wait=chance.choice((None, 0.5, 5.0)),
        shrink_after=chance.choice((None, 0.5, 5.0)),
        distributed_mode=mode,
        failure_policy=chance.choice(list(FailurePolicy)),
        timeouts=Timeouts(**{name: chance.choice(limits) for name, limits in _LIMITS.items()}),
        memory_on_oom=MemoryGrowth(up_to=chance.choice((None, None, 2 * GIB))),
    )


def _perhaps_fewer(chance: Random, role: Role, mode: DistributedMode) -> Role:
    """The same role; perhaps it can do with fewer tasks."""
    together = mode is DistributedMode.GANG and role.kind in (RoleKind.TRACKED, RoleKind.UNTRACKED)
    if not together or role.instances == 1 or chance.random() < 0.5:
        return role
    return replace(role, min_instances=chance.randint(1, role.instances - 1))


def _possible(role: Role, roles: Mapping[str, Role]) -> Role:
    """The same role, as it may stand in a job file: preparation waits for preparation only."""
    setup = [name for name, other in roles.items() if other.kind is RoleKind.SETUP]
    if role.kind is RoleKind.SETUP:
        after = {name: condition for name, condition in role.after.items() if name in setup}
        return replace(role, after=after, timeout_after=None)
    return replace(role, after={name: condition for name, condition in role.after.items() if name not in setup})


#: Seconds of each time-out, or none; short ones hide whatever else might happen, so they are rare.
_LIMITS: Mapping[str, tuple[float | None, ...]] = {
    "allocation": (None, None, None, 1.0, 30.0),
    "registration": (None, None, 30.0, 900.0),
    "startup": (None, None, None, 1.0, 30.0),
    "execution": (None, None, None, 1.0, 30.0),
    "job": (None, None, None, None, None, 50.0),
}


class Life:
    """One life of one job.

    Args:
        chance: where all of it comes from.
        spec: the job; None for a random one.
        faults: names of the only faults there may be; None for a random mixture.
    """

    def __init__(self, chance: Random, spec: JobSpec | None = None, faults: Sequence[str] | None = None) -> None:
        self.chance = chance
        self.spec = spec or random_job(chance)
        # Often just the room for which the embedded scheduler asks: stages must not block each other.
        capacity = compute_peak(self.spec).memory // GIB if chance.random() < 0.5 else 1000
        self.cluster = Simulation(
            self.spec, capacity=capacity, gangs=chance.random() < 0.5, enlists=chance.random() < 0.3
        )
        self.capacity = capacity
        picked = [name for name in self._faults() if chance.random() < 0.35] if faults is None else faults
        steps: list[tuple[Callable[[], None], int]] = [
            (self._deliver, chance.choice((20, 60, 60))),
            (self._exit, chance.choice((1, 3, 10))),
            (self._deadline, chance.choice((1, 5))),
            *((self._faults()[name], 1 if name in _DECISIVE else chance.randint(1, 6)) for name in picked),
        ]
        self._doing, self._weights = [step for step, _ in steps], [weight for _, weight in steps]
        self.in_order = chance.random() < 0.3

    def _faults(self) -> Mapping[str, Callable[[], None]]:
        return {
            "twice": self._twice,
            "again": self._again,
            "fail": self._fail,
            "lose": self._lose,
            "give up": self._give_up,
            "refuse": self._refuse,
            "silent": self._silent,
            "freeze": self._freeze,
            "disconnect": self._disconnect,
            "kill": self._kill,
            "order": self._order,
            "jump": self._jump,
            "stubborn": self._stubborn,
            "unlaunchable": self._unlaunchable,
            "queue": self._queue,
            "never": self._never,
            "room": self._room,
            "unknown": self._unknown,
            "early": self._early,
            "deaf": self._deaf,
            "die": self._die,
            "exclude": self._exclude,
        }

    def live(self, steps: int, settings: str = "x") -> None:
        """So many random steps, or fewer if the job ends."""
        self.cluster.begin(settings)
        for _ in range(steps):
            if self.cluster.finished:
                return
            self.step()

    def step(self) -> None:
        self.chance.choices(self._doing, self._weights)[0]()

    def end(self) -> None:
        """Lets the job come to its end: there is room, what runs succeeds, what is suspended is found to be silent."""
        cluster = self.cluster
        cluster.capacity = self.capacity
        cluster.grant()
        if self.spec.restart_window:
            cluster.unlaunchable.clear()  # or what is forgotten so soon would be tried for ever
        for _ in range(10_000):
            if cluster.finished:
                return
            if cluster.deaf and cluster.app.state.job is not JobState.STOPPING:
                cluster.hear()
            still = [e for e in cluster.executors.values() if e.frozen or not e.connected]
            if still:
                self._wake_up(still[0])
            elif cluster.pending:
                cluster.deliver_pending()
            elif cluster.running():
                cluster.exit(cluster.running()[0].task, OK)
            elif not cluster.advance():
                break
        raise AssertionError(f"the job does not end: {build_fingerprint(cluster.app.state)}")

    def drain(self) -> None:
        """After the end: whatever is still on its way arrives."""
        for _ in range(10_000):
            if not self.cluster.pending:
                return
            self.cluster.deliver_pending()
        raise AssertionError("the cluster does not come to rest")

    def _wake_up(self, executor: SimulatedExecutor) -> None:
        if executor.frozen:
            if self.chance.random() < 0.5:
                self.cluster.thaw(executor.container)
            else:
                self.cluster.fall_silent(executor.container)
                self.cluster.run()
                if executor.container in self.cluster.executors:
                    self.cluster.lose(executor.container, "killed by its node's owner")
        else:
            self.cluster.reconnect(executor.container)

    def _one(self, of: Sequence[T]) -> T | None:
        return self.chance.choice(of) if of else None

    # --- what happens anyway --------------------------------------------------------------------------------------

    def _deliver(self) -> None:
        if self.cluster.pending:
            self.cluster.deliver_pending(0 if self.in_order else self.chance.randrange(len(self.cluster.pending)))

    def _exit(self) -> None:
        program = self._one(self.cluster.running())
        if program:
            self.cluster.exit(program.task, OK)

    def _deadline(self) -> None:
        if not self.cluster.pending or self.chance.random() < 0.2:
            self.cluster.advance()

    # --- faults -------------------------------------------------------------------------------------------------

    def _twice(self) -> None:
        if self.cluster.pending:
            self.cluster.deliver_pending(self.chance.randrange(len(self.cluster.pending)), twice=True)

    def _again(self) -> None:
        old = [event for event, _ in self.cluster.log if not isinstance(event, _ASKED_FOR)]
        event = self._one(old)
        if event:
            self.cluster.deliver(event)

    def _fail(self) -> None:
        program = self._one(self.cluster.running())
        if program:
            self.cluster.exit(program.task, self.chance.choice(_STATUSES))

    def _lose(self) -> None:
        container = self._one(list(self.cluster.containers))
        if container:
            silent, blameless = self.chance.random() < 0.5, self.chance.random() < 0.3
            self.cluster.lose(container, "its node burned", silent=silent, blameless=blameless)

    def _give_up(self) -> None:
        container = self._one(list(self.cluster.containers))
        if container:
            executor = self.cluster.executors.get(container)
            if executor and self.chance.random() < 0.7:
                self.cluster.disconnect(container)
            contact = self.cluster.now - self.chance.choice((0.0, 0.0, 20.0, 200.0))
            self.cluster.give_up(container, 60.0, contact)

    def _refuse(self) -> None:
        container = self._one([c for c in self.cluster.containers if c not in self.cluster.executors])
        if container:
            self.cluster.refuse(container)

    def _silent(self) -> None:
        executor = self._one(list(self.cluster.executors.values()))
        if executor:
            self.cluster.fall_silent(executor.container)

    def _freeze(self) -> None:
        executor = self._one(list(self.cluster.executors.values()))
        if executor and executor.frozen:
            self.cluster.thaw(executor.container)
        elif executor:
            self.cluster.freeze(executor.container)

    def _disconnect(self) -> None:
        executor = self._one(list(self.cluster.executors.values()))
        if executor and executor.connected:
            self.cluster.disconnect(executor.container)
        elif executor and not executor.frozen:
            self.cluster.reconnect(executor.container)

    def _kill(self) -> None:
        if self.chance.random() < 0.1:
            self.cluster.deliver(ev.KillRequested(actor=Actor("ann"), now=self.chance.random() < 0.5))

    def _order(self) -> None:
        if self.chance.random() < 0.2:
            self.cluster.deliver(
                self.chance.choice(
                    (
                        ev.RestartRequested(actor=Actor("ann")),
                        ev.StacksRequested(actor=Actor("ann"), task=TaskId("worker", 0)),
                    )
                )
            )

    def _jump(self) -> None:
        self.cluster.now += self.chance.choice((0.1, 1.0, 3.0, 40.0, 4000.0))

    def _stubborn(self) -> None:
        program = self._one(self.cluster.running())
        if program:
            self.cluster.stubborn.add(program.task)

    def _unlaunchable(self) -> None:
        if self.chance.random() < 0.3:
            self.cluster.unlaunchable.add(self.chance.choice(self.spec.task_ids))

    def _queue(self) -> None:
        self.cluster.deliver(ev.Queued(reason=self.chance.choice(("", "no room", "behind another job"))))

    def _never(self) -> None:
        if self.chance.random() < 0.05:
            role = self.chance.choice(list(self.spec.roles))
            self.cluster.deliver(ev.Unsatisfiable(role=role, reason="it can never be had"))

    def _exclude(self) -> None:
        hosts = sorted({held.host for held in self.cluster.app.state.containers.values()})
        self.cluster.deliver(ev.Excluded(hosts=tuple(host for host in hosts if self.chance.random() < 0.7)))

    def _room(self) -> None:
        self.cluster.capacity = self.chance.choice((0, 1, 2, self.capacity))
        self.cluster.grant()

    def _unknown(self) -> None:
        task = TaskId(self.chance.choice((*self.spec.roles, "unknown")), self.chance.randrange(4))
        session = self.chance.randrange(4)
        strange: tuple[ev.Event, ...] = (
            ev.Started(task=task, session=session, try_=1, pid=7),
            ev.FirstOutput(task=task, session=session, try_=2),
            ev.Exited(task=task, session=session, try_=2, status=OK, at=1e9),
            ev.Registered(task=task, container="c-1", incarnation="unknown", session=session, address="h:1"),
            ev.Silent(task=task, incarnation="unknown", silence=25.0, container="c-1"),
            ev.ContainerEnded(container="c-999", cause="unknown"),
            ev.ActionFailed(action="launch", cause="what?", container=None),
            ev.Granted(container=f"x-{len(self.cluster.log)}", role=task.role, host="elsewhere"),
        )
        event = self.chance.choice(strange)
        if isinstance(event, ev.Granted):
            self.cluster.containers[event.container] = event.role
        if isinstance(event, ev.Registered) and self.cluster.app.accepts(task, event.container, event.incarnation):
            return  # the first that names itself in a container is the one: it has the credentials
        self.cluster.deliver(event)

    def _early(self) -> None:
        deadline = self._one(list(self.cluster.app.state.timers.all))
        self.cluster.deliver(ev.DeadlinePassed(deadline=deadline or Deadline(DeadlineKind.JOB)))

    def _deaf(self) -> None:
        if self.cluster.deaf:
            self.cluster.hear()
        elif self.chance.random() < 0.2:
            self.cluster.deaf = True

    def _die(self) -> None:
        """The application master is killed; the executors find the next one, sooner or later."""
        self.cluster.late = self.chance.random() < 0.5
        self.cluster.die()
