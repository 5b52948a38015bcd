"""Random lives of random jobs: whatever order things happen in, the machine keeps its promises."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.core.specs import COLLISION, FAILED, OK, SEGV
from tony.core import events as ev
from tony.core.fingerprint import fingerprint
from tony.core.machine import Application
from tony.model.exit import ExitStatus
from tony.model.job import GIB, JobSpec, Role, TimeoutAfter, Timeouts
from tony.model.states import (
    AfterCondition,
    DistributedMode,
    FailurePolicy,
    OnTimeout,
    RoleKind,
    StopOn,
)
from tony.schedulers.local.peak import peak
from tony.testing.simulation import Simulation

_NAMES = ("chief", "worker", "ps", "evaluator")


@st.composite
def _jobs(draw: st.DrawFn) -> JobSpec:
    names = draw(st.lists(st.sampled_from(_NAMES), min_size=1, max_size=4, unique=True))
    roles: dict[str, Role] = {}
    for index, name in enumerate(names):
        before = draw(st.lists(st.sampled_from(names[:index]), unique=True)) if index else []
        kind = RoleKind.TRACKED if index == 0 else draw(st.sampled_from(RoleKind))
        limit = TimeoutAfter(group="first", limit=5.0, on_timeout=draw(st.sampled_from(OnTimeout)))
        roles[name] = Role(
            instances=draw(st.integers(1, 3)),
            kind=kind,
            after={other: draw(st.sampled_from(AfterCondition)) for other in before},
            stop_on_failure=draw(st.integers(0, 9)) == 0,
            timeout_after=limit if index and draw(st.booleans()) else None,
        )
    times = st.one_of(st.none(), st.sampled_from([1.0, 30.0]))
    return JobSpec(
        command="x",
        roles=roles,
        groups={"first": (names[0],)},
        max_restarts=draw(st.integers(0, 3)),
        stop_on=draw(st.sampled_from(StopOn)),
        distributed_mode=draw(st.sampled_from(DistributedMode)),
        failure_policy=draw(st.sampled_from(FailurePolicy)),
        timeouts=Timeouts(
            allocation=draw(times),
            registration=draw(times),
            startup=draw(times),
            execution=draw(times),
            job=draw(times),
        ),
    )


def _on_a_claim(spec: JobSpec) -> Simulation:
    """The job on a cluster that has just the room for which the embedded scheduler asks: stages must not block."""
    return Simulation(spec, capacity=peak(spec).memory // GIB)


_STATUSES: tuple[ExitStatus, ...] = (OK, OK, OK, FAILED, SEGV, COLLISION)


def _live(simulation: Simulation, data: st.DataObject, steps: int) -> None:
    """Random good and bad luck."""
    simulation.begin()
    for _ in range(steps):
        if simulation.finished:
            return
        choice = data.draw(st.integers(0, 101))
        pick = data.draw(st.integers(0, 30))
        running = simulation.running()
        if choice < 55 and simulation.pending:
            simulation.deliver_pending(pick, twice=choice < 5)
        elif choice < 75 and running:
            simulation.exit(running[pick % len(running)].task, _STATUSES[pick % len(_STATUSES)])
        elif choice < 80 and simulation.containers:
            simulation.lose(list(simulation.containers)[pick % len(simulation.containers)])
        elif choice < 83 and simulation.executors:
            executor = list(simulation.executors.values())[pick % len(simulation.executors)]
            simulation.deliver(ev.Silent(task=executor.task, incarnation=executor.incarnation, silence=25.0))
        elif choice < 84:
            simulation.deliver(ev.UserCommand(actor="me", what="kill-now" if pick % 2 else "kill"))
        elif choice < 86 and simulation.log:
            old, _ = simulation.log[pick % len(simulation.log)]
            if not isinstance(old, ev.AttemptStarted | ev.SessionOpened | ev.ReconcileClosed):
                simulation.deliver(old)
        elif choice < 88 and simulation.containers:
            container = list(simulation.containers)[pick % len(simulation.containers)]
            simulation.containers.pop(container)
            simulation.executors.pop(container, None)
            simulation.deliver(ev.ActionFailed(action="launch", cause="no", container=container))
        elif choice < 90:
            simulation.now += pick
        elif choice < 100:
            simulation.advance()
        elif simulation.running():
            simulation.stubborn.add(running[pick % len(running)].task)


def _end(simulation: Simulation) -> None:
    """Lets everything come to its end: what runs succeeds."""
    for _ in range(10_000):
        if simulation.finished:
            return
        if simulation.pending:
            simulation.deliver_pending()
        elif simulation.running():
            simulation.exit(simulation.running()[0].task, OK)
        elif not simulation.advance():
            break
    assert simulation.finished, f"stuck: {fingerprint(simulation.app.state)}"


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(_jobs(), st.data())
def test_every_life_ends_and_keeps_every_promise(spec: JobSpec, data: st.DataObject) -> None:
    """Invariants hold after each event, programs of two sessions never overlap, and every job ends with a result."""
    simulation = _on_a_claim(spec)
    simulation.unlaunchable |= set(data.draw(st.lists(st.sampled_from(spec.task_ids), max_size=1)))
    _live(simulation, data, steps=data.draw(st.integers(0, 120)))
    _end(simulation)
    assert simulation.finished is not None
    assert simulation.finished.exit_code in (0, 1, 3, 4)


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(_jobs(), st.data())
def test_the_same_events_lead_to_the_same_state(spec: JobSpec, data: st.DataObject) -> None:
    """A fresh machine fed with the same events at the same times reaches the same digest after each."""
    simulation = Simulation(spec)
    _live(simulation, data, steps=60)
    twin = Application("sim", spec)
    for event, at in simulation.log:
        twin.handle(event, at)
    assert simulation.app.digest() == twin.digest()


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(_jobs())
def test_without_bad_luck_a_job_succeeds(spec: JobSpec) -> None:
    """Programs that all succeed make a successful job, under every policy and start order."""
    simulation = _on_a_claim(replace(spec, timeouts=Timeouts()))
    simulation.begin()
    for _ in range(1000):
        simulation.run()
        if simulation.finished:
            break
        for program in simulation.running():
            simulation.exit(program.task, OK)
    assert simulation.finished is not None
    assert simulation.finished.exit_code == 0
