"""One fault in the life of a job that knows no other: what comes of it is known beforehand.

It comes at a random moment, and events come in a random order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import pytest

from tests.core.log_explanations import unexplained
from tests.core.random_jobs import MEMORY, OUTSIDE, Life, random_job
from tests.core.specs import COLLISION, FAILED, SEGV
from tests.support.simulation import SimulatedExecutor, Simulation
from tony.core import events as ev
from tony.core.steps.containers import MAX_LAUNCHES
from tony.model.actor import Actor
from tony.model.job_spec import JobSpec, Timeouts
from tony.model.program_exit import ExitStatus
from tony.model.setting_choices import FailurePolicy, RoleKind, StopOn
from tony.model.states import TaskState

#: Lives per fault: in each it comes at another moment of another job.
LIVES = 25
#: Waits until its target exists, injects the fault, and returns the affected task, "" for the job, None if not yet.
Fault = Callable[[Simulation, Random], str | None]


def ordinary_job(chance: Random) -> JobSpec:
    """Every task counts, nothing is tolerated, nothing runs out of time, nothing is tried again."""
    spec = random_job(chance)
    roles = {
        name: replace(role, kind=RoleKind.TRACKED, timeout_after=None, stop_on_failure=False)
        for name, role in spec.roles.items()
    }
    return replace(
        spec,
        roles=roles,
        max_restarts=0,
        restart_window=None,
        timeouts=Timeouts(registration=None),
        stop_on=StopOn.ALL,
        failure_policy=FailurePolicy.ANY_TRACKED,
    )


def executors(cluster: Simulation, *states: TaskState) -> list[SimulatedExecutor]:
    """The executors of tasks that stand like this, as the machine sees them."""
    return [e for e in cluster.executors.values() if cluster.app.state.tasks[e.task].state in states]


def ends_with(status: ExitStatus) -> Fault:
    def fault(cluster: Simulation, chance: Random) -> str | None:
        running = cluster.running()
        if not running:
            return None
        task = chance.choice(running).task
        cluster.exit(task, status)
        return str(task)

    return fault


def collides(cluster: Simulation, chance: Random) -> str | None:
    return "" if ends_with(COLLISION)(cluster, chance) else None


def loses(*states: TaskState, silent: bool = False, blameless: bool = False) -> Fault:
    """A container goes away while its task stands like this."""

    def fault(cluster: Simulation, chance: Random) -> str | None:
        found = [e for e in executors(cluster, *states) if e.program or TaskState.RUNNING not in states]
        if not found:
            return None
        executor = chance.choice(found)
        cluster.lose(executor.container, "its node burned", silent=silent, blameless=blameless)
        if silent:  # nothing of it comes before the news
            gone = [p.event for p in cluster.pending if isinstance(p.event, ev.ContainerEnded)]
            cluster.deliver(next(e for e in gone if e.container == executor.container))
        return str(executor.task)

    return fault


def falls_silent(*states: TaskState) -> Fault:
    """An executor freezes and is not heard of any longer."""

    def fault(cluster: Simulation, chance: Random) -> str | None:
        found = [e for e in executors(cluster, *states) if e.program or TaskState.RUNNING not in states]
        if not found:
            return None
        executor = chance.choice(found)
        cluster.freeze(executor.container)
        silent = ev.Silent(
            task=executor.task, incarnation=executor.incarnation, silence=25.0, container=executor.container
        )
        cluster.deliver(silent)
        return str(executor.task)

    return fault


def pauses(cluster: Simulation, chance: Random) -> str | None:
    """An executor is suspended for a while, and continues in time; meanwhile things happen to the others."""
    if not cluster.executors:
        return None
    container = chance.choice(list(cluster.executors))
    cluster.freeze(container)
    for _ in range(chance.randrange(20)):
        if cluster.pending:
            cluster.deliver_pending(chance.randrange(len(cluster.pending)))
    if container in cluster.executors:
        cluster.thaw(container)
    return ""


def is_cut_off(cluster: Simulation, chance: Random) -> str | None:
    """A connection breaks and comes again; commands in between are lost."""
    if not cluster.executors:
        return None
    container = chance.choice(list(cluster.executors))
    cluster.disconnect(container)
    for _ in range(chance.randrange(20)):
        if cluster.pending:
            cluster.deliver_pending(chance.randrange(len(cluster.pending)))
    if container in cluster.executors:
        cluster.reconnect(container)
    return ""


def is_refused(times: int) -> Fault:
    """Nothing can be launched in so many containers of one task."""

    def fault(cluster: Simulation, chance: Random) -> str | None:
        waiting = executors(cluster, TaskState.STARTING)
        if not waiting:
            return None
        task = chance.choice(waiting).task
        for _ in range(times):
            while not (container := cluster.app.state.tasks[task].container):
                if not cluster.pending:
                    return None
                cluster.deliver_pending()
            if cluster.app.state.tasks[task].state is not TaskState.STARTING:
                return None
            cluster.executors.pop(container, None)
            cluster.pending = [p for p in cluster.pending if p.source != container]
            cluster.refuse(container)
            while cluster.app.state.tasks[task].container == container:
                cluster.deliver_pending()
        return str(task)

    return fault


def cannot_be_started(cluster: Simulation, chance: Random) -> str | None:
    ready = executors(cluster, TaskState.STARTING, TaskState.REGISTERED)
    if not ready:
        return None
    task = chance.choice(ready).task
    cluster.unlaunchable.add(task)
    return str(task)


def is_killed(cluster: Simulation, chance: Random) -> str | None:
    """The user kills the job."""
    if not cluster.app.state.active:
        return None
    cluster.deliver(ev.KillRequested(actor=Actor("ann"), now=chance.random() < 0.5))
    return ""


def cannot_be_had(cluster: Simulation, chance: Random) -> str | None:
    if not cluster.app.state.active:
        return None
    cluster.deliver(ev.Unsatisfiable(role=next(iter(cluster.app.state.roles)), reason="there is no such machine"))
    return ""


def has_no_room(cluster: Simulation, chance: Random) -> str | None:
    """Everything else comes first for a while."""
    cluster.capacity, before = 0, cluster.capacity
    cluster.deliver(ev.Queued(reason="behind another job"))
    for _ in range(chance.randrange(20)):
        if cluster.pending:
            cluster.deliver_pending(chance.randrange(len(cluster.pending)))
    cluster.deliver(ev.Queued(reason=""))
    cluster.capacity = before
    cluster.grant()
    return ""


S = TaskState
FAULTS: dict[str, tuple[Fault, str, int, str | None]] = {
    # what happens: how, state of the job, exit code, cause
    "a program fails": (ends_with(FAILED), "failed", 1, "program"),
    "a program crashes": (ends_with(SEGV), "failed", 1, "program"),
    "a program takes too much memory": (ends_with(MEMORY), "failed", 1, "memory"),
    "a program is stopped from outside": (ends_with(OUTSIDE), "failed", 3, "lost"),
    "a port is taken": (collides, "succeeded", 0, None),
    "no command": (cannot_be_started, "failed", 1, "launch"),
    "a container is lost early": (loses(S.STARTING, S.REGISTERED, silent=True), "succeeded", 0, None),
    "a container is lost": (loses(S.RUNNING), "failed", 3, "lost"),
    "a container is lost with its reports": (loses(S.RUNNING, silent=True), "failed", 3, "lost"),
    "a container is taken away": (loses(S.RUNNING, blameless=True), "succeeded", 0, None),
    "a container is refused": (is_refused(1), "succeeded", 0, None),
    "containers are refused": (is_refused(MAX_LAUNCHES), "succeeded", 0, None),
    "an executor freezes early": (falls_silent(S.STARTING, S.REGISTERED), "succeeded", 0, None),
    "an executor freezes": (falls_silent(S.RUNNING), "succeeded", 0, None),
    "an executor pauses": (pauses, "succeeded", 0, None),
    "a connection breaks": (is_cut_off, "succeeded", 0, None),
    "the job is killed": (is_killed, "killed", 4, "killed"),
    "the job is refused": (cannot_be_had, "failed", 3, "refused"),
    "the job has to wait": (has_no_room, "succeeded", 0, None),
}


def lived(seed: int, fault: Fault) -> tuple[Life, str | None]:
    """Run a job to its end with one fault; return the affected task, None if the fault never found a target."""
    chance = Random(seed)
    life = Life(chance, ordinary_job(chance), faults=())
    life.cluster.begin()
    for _ in range(chance.randrange(20)):
        if not life.cluster.finished:
            life.step()
    target = None
    for _ in range(1000):
        if life.cluster.finished or target is not None:
            break
        target = fault(life.cluster, chance)
        life.step()
    life.end()
    life.drain()
    return life, target


@pytest.mark.parametrize("name", FAULTS)
def test_one_fault(name: str) -> None:
    """State, exit code, cause and task of the end are those of the fault."""
    fault, state, exit_code, cause = FAULTS[name]
    wrong: list[Sequence[object]] = []
    met = 0
    for seed in range(LIVES):
        life, target = lived(seed, fault)
        finished = life.cluster.finished
        assert finished
        if target is None:
            continue
        met += 1
        failure = finished.failure
        came = (
            finished.state.value,
            finished.exit_code,
            failure and failure.cause,
            str((failure and failure.task) or ""),
        )
        log = [event for event, _ in life.cluster.log]
        wrong += [(seed, target, text) for text in unexplained(finished, log, life.cluster.app.state)]
        if came != (state, exit_code, cause, target if cause else ""):
            wrong.append((seed, target, *came))
    assert wrong == []
    assert met > LIVES / 2
