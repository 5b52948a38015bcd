"""What the machine decides, case by case, on the simulated cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.core.simulated import made, started
from tests.core.specs import COLLISION, FAILED, OK, SEGV, roles, staged, task, with_restarts, workers
from tests.facts import mentions
from tests.support.simulation import Simulation
from tony.core import actions as act
from tony.core import events as ev
from tony.core.deadline import Deadline
from tony.core.policies.restart_policy import MAX_LAUNCH_RESTARTS
from tony.core.sentences import describe_opening
from tony.core.steps.container_loss import REPORT_WAIT_SECONDS
from tony.core.steps.containers import MAX_LAUNCHES
from tony.errors import InvalidTransitionError
from tony.model.actor import Actor
from tony.model.failure import ClusterKill, FailureClass
from tony.model.job_spec import JobSpec, Role, TimeoutAfter, Timeouts
from tony.model.program_exit import ExitReason, ExitStatus
from tony.model.setting_choices import AfterCondition, DistributedMode, FailurePolicy, OnTimeout, RoleKind, StopOn
from tony.model.states import JobState


def states(simulation: Simulation) -> dict[str, str]:
    """Task -> state."""
    return {str(t.id): t.state.value for t in simulation.app.state.tasks.values()}


def outcome(simulation: Simulation) -> tuple[str, int, str | None]:
    """The job's end: state, exit code, cause."""
    simulation.settle()
    assert simulation.finished
    failure = simulation.finished.failure
    return simulation.finished.state.value, simulation.finished.exit_code, failure.cause if failure else None


def finish_all(simulation: Simulation, status: ExitStatus = OK) -> None:
    """Every program that runs, or comes to run, ends like this."""
    for _ in range(100):
        simulation.run()
        if simulation.finished:
            return
        for program in simulation.running():
            simulation.exit(program.task, status)


# --- the gang ---------------------------------------------------------------------------------------------------------


def test_no_program_starts_before_all_tasks_have_registered() -> None:
    """The gang barrier: with one task short none is started; then all at once, after one Publish."""
    simulation = Simulation(workers(3))
    simulation.begin()
    while len(simulation.pending) > 1 or not isinstance(simulation.pending[0].event, ev.Registered):
        registered = [i for i, p in enumerate(simulation.pending) if isinstance(p.event, ev.Registered)]
        others = [i for i, p in enumerate(simulation.pending) if not isinstance(p.event, ev.Registered)]
        simulation.deliver_pending(others[0] if others else registered[0])
    assert made(simulation, act.Start) == []
    simulation.deliver_pending()
    kinds = [type(a) for a in simulation.actions if isinstance(a, act.Publish | act.Start)]
    assert kinds == [act.Publish, act.Start, act.Start, act.Start]
    spec = made(simulation, act.Publish)[0].spec
    assert (spec.session, spec.version, list(spec.roles)) == (1, 1, ["worker"])
    assert len(set(spec.roles["worker"])) == 3


def test_fcfs_starts_each_as_it_registers_without_a_spec() -> None:
    """In fcfs mode a task does not wait for others and no cluster spec is published."""
    simulation = started(workers(2, distributed_mode=DistributedMode.FCFS), capacity=1)
    assert states(simulation) == {"worker:0": "running", "worker:1": "requested"}
    assert [a.version for a in made(simulation, act.Start)] == [0]
    assert made(simulation, act.Publish) == []


def test_the_gang_does_not_wait_for_sidecars() -> None:
    """A sidecar without a container does not delay the gang."""
    simulation = started(roles(worker=Role(), board=Role(kind=RoleKind.SIDECAR)), capacity=1)
    assert states(simulation) == {"worker:0": "running", "board:0": "requested"}


def test_registration_may_be_delivered_again() -> None:
    """A second delivery of the same registration changes nothing."""
    simulation = started(workers(1))
    registered = next(e for e, _ in simulation.log if isinstance(e, ev.Registered))
    before = simulation.app.compute_digest()
    assert simulation.deliver(registered) == []
    assert simulation.app.compute_digest() == before


# --- start order ------------------------------------------------------------------------------------------------------


def test_roles_start_in_order() -> None:
    """Containers of a role are requested only when what it waits for is true."""
    simulation = started(staged())
    assert {a.role for a in made(simulation, act.SetDemand)} == {"prep", "board"}
    simulation.exit(task("prep:0"), OK)
    simulation.run()
    assert states(simulation)["chief:0"] == "pending"
    simulation.exit(task("prep:1"), OK)
    simulation.run()
    assert states(simulation)["chief:0"] == "running"
    assert states(simulation)["export:0"] == "pending"
    for name in ("chief:0", "worker:0", "worker:1"):
        simulation.exit(task(name), OK)
    simulation.run()
    assert states(simulation)["export:0"] == "running"
    simulation.exit(task("export:0"), OK)
    assert outcome(simulation) == ("succeeded", 0, None)
    assert states(simulation)["ps:0"] == "stopped"


def test_started_satisfies_its_condition() -> None:
    """`{ started = [...] }` is satisfied once the programs run; the later spec names both roles."""
    simulation = started(roles(ps=Role(), worker=Role(after={"ps": AfterCondition.STARTED})))
    assert states(simulation) == {"ps:0": "running", "worker:0": "running"}
    assert [sorted(a.spec.roles) for a in made(simulation, act.Publish)] == [["ps"], ["ps", "worker"]]


def test_a_role_that_can_never_start_fails_the_job() -> None:
    """A tolerated failure of a task that another role waits for is reported."""
    spec = roles(worker=Role(instances=2), export=Role(after={"worker": AfterCondition.SUCCEEDED}))
    simulation = started(replace(spec, failure_policy=FailurePolicy.CHIEF_OR_ALL))
    simulation.exit(task("worker:1"), FAILED)
    simulation.run()
    simulation.exit(task("worker:0"), OK)
    assert outcome(simulation) == ("failed", 1, "unsatisfiable")


def test_a_sidecar_that_can_never_start_hides_no_other_role() -> None:
    """The sidecar is tolerated and the other role ends the job."""
    after = {"worker": AfterCondition.SUCCEEDED}
    spec = roles(worker=Role(instances=2), board=Role(kind=RoleKind.SIDECAR, after=after), export=Role(after=after))
    simulation = started(replace(spec, failure_policy=FailurePolicy.CHIEF_OR_ALL))
    simulation.exit(task("worker:1"), FAILED)
    simulation.run()
    simulation.exit(task("worker:0"), OK)
    assert outcome(simulation) == ("failed", 1, "unsatisfiable")
    assert [v.decision for v in made(simulation, act.ReportFailure)] == ["tolerate", "tolerate", "fail"]


@pytest.mark.parametrize("condition", AfterCondition)
def test_a_role_behind_one_that_can_never_start_can_never_start(condition: AfterCondition) -> None:
    """A chain of waiting roles does not hang at a tolerated link."""
    spec = roles(
        worker=Role(instances=2),
        board=Role(kind=RoleKind.SIDECAR, after={"worker": AfterCondition.SUCCEEDED}),
        export=Role(after={"board": condition}),
    )
    simulation = started(replace(spec, failure_policy=FailurePolicy.CHIEF_OR_ALL))
    simulation.exit(task("worker:1"), FAILED)
    simulation.run()
    simulation.exit(task("worker:0"), OK)
    assert outcome(simulation) == ("failed", 1, "unsatisfiable")
    assert mentions(simulation.failure.reason, "export", "board")


def test_waiting_for_a_task_that_could_not_be_started_is_reported() -> None:
    """`{ started = [...] }` is never true of a tolerated task whose program could not be started."""
    spec = roles(board=Role(instances=2, kind=RoleKind.SIDECAR), worker=Role(after={"board": AfterCondition.STARTED}))
    simulation = Simulation(spec)
    simulation.unlaunchable.add(task("board:1"))
    simulation.begin()
    simulation.run()
    assert outcome(simulation) == ("failed", 1, "unsatisfiable")
    assert mentions(simulation.failure.reason, "worker", "board", "1 of them")


def test_a_task_that_has_exited_counts_as_started() -> None:
    """Also if the report of its start comes after that of its exit."""
    simulation = Simulation(roles(prep=Role(instances=2), worker=Role(after={"prep": AfterCondition.STARTED})))
    simulation.begin()
    simulation.run(until=lambda: len(simulation.running()) == 2)
    simulation.exit(task("prep:0"), OK)
    while simulation.pending:
        simulation.deliver_pending(-1)
    assert states(simulation) == {"prep:0": "succeeded", "prep:1": "running", "worker:0": "running"}


# --- success and failure ----------------------------------------------------------------------------------------------


def test_the_chiefs_success_may_end_the_job() -> None:
    """With stop_on = "chief" the rest is stopped, and counts as stopped by us."""
    simulation = started(replace(roles(chief=Role(), worker=Role(instances=2)), stop_on=StopOn.CHIEF))
    simulation.exit(task("chief:0"), OK)
    assert outcome(simulation) == ("succeeded", 0, None)
    assert states(simulation) == {"chief:0": "succeeded", "worker:0": "stopped", "worker:1": "stopped"}


def test_stop_on_failure_ends_the_job_despite_restarts_left() -> None:
    """Its failure is final under every policy."""
    spec = roles(worker=Role(), db=Role(stop_on_failure=True, kind=RoleKind.SIDECAR))
    simulation = started(with_restarts(replace(spec, failure_policy=FailurePolicy.CHIEF_OR_ALL), 5))
    simulation.exit(task("db:0"), FAILED)
    assert outcome(simulation) == ("failed", 1, "program")


def test_the_earliest_failure_is_the_cause() -> None:
    """Reports may overtake each other: the earliest end is named first, the others beside it."""
    simulation = started(workers(2))
    simulation.now = 10.0
    simulation.executors["c-2"].program = None
    simulation.deliver(ev.Exited(task=task("worker:1"), session=1, try_=1, status=FAILED, at=9.0))
    simulation.deliver(ev.Exited(task=task("worker:0"), session=1, try_=1, status=SEGV, at=8.0))
    simulation.settle()
    failure = simulation.failure
    assert (failure.task, failure.signal, failure.at) == (task("worker:0"), "SIGSEGV", 8.0)
    assert len(failure.others) == 1
    assert "worker:1" in failure.others[0]


# --- restarts ---------------------------------------------------------------------------------------------------------


def test_a_restart_keeps_the_containers() -> None:
    """Session 2 runs in the same containers; executors register again; no container is requested anew."""
    simulation = started(workers(3, max_restarts=1))
    before = dict(simulation.containers)
    simulation.exit(task("worker:1"), FAILED)
    simulation.run()
    assert simulation.containers == before
    assert simulation.app.state.session == 2
    assert {p.session for p in simulation.running()} == {2}
    assert len(made(simulation, act.Renew)) == 3
    finish_all(simulation)
    assert outcome(simulation) == ("succeeded", 0, None)


def test_only_dead_containers_are_replaced() -> None:
    """One container of three is lost: one new one is requested."""
    simulation = started(workers(3, max_restarts=1))
    simulation.lose("c-2", "the node burned")
    simulation.run()
    simulation.advance()
    simulation.run()
    assert sorted(simulation.executors)[:2] == ["c-1", "c-3"]
    assert len(simulation.executors) == 3
    assert len(simulation.running()) == 3


def test_restarts_end_with_their_budget() -> None:
    """max_restarts = 2 makes three sessions; then the failure stands. The second restart waits for its back-off."""
    simulation = started(workers(1, max_restarts=2, backoff=4.0))
    for _ in range(3):
        while not simulation.running():
            assert simulation.advance() or simulation.pending
            simulation.run()
        simulation.exit(task("worker:0"), FAILED)
        simulation.run()
    assert outcome(simulation) == ("failed", 1, "program")
    assert simulation.app.state.session == 3
    assert 4.0 <= simulation.now < 15.1
    decisions = [v.decision for v in made(simulation, act.ReportFailure)]
    assert decisions == ["restart", "restart", "fail"]


def test_preparation_is_not_done_twice() -> None:
    """A role that finished before the failed gang began stays finished; peers under one spec run again together."""
    simulation = started(with_restarts(staged(), 1))
    for name in ("prep:0", "prep:1"):
        simulation.exit(task(name), OK)
    simulation.run()
    simulation.exit(task("chief:0"), OK)
    simulation.run()
    simulation.exit(task("worker:0"), FAILED)
    simulation.run()
    assert simulation.app.state.session == 2
    assert states(simulation)["prep:0"] == "succeeded"
    assert states(simulation)["chief:0"] == "running"


def test_an_executor_of_an_older_session_prepares_the_new_one() -> None:
    """An executor that registers late in a restart does not keep the next session waiting."""
    simulation = started(workers(2, max_restarts=1))
    registered = [e for e, _ in simulation.log if isinstance(e, ev.Registered) and e.task == task("worker:1")]
    simulation.exit(task("worker:0"), FAILED)
    simulation.run(until=lambda: simulation.app.state.session == 2)
    again = simulation.deliver(registered[0])
    assert again == [act.Renew(task=task("worker:1"), session=2)]
    assert states(simulation)["worker:1"] == "starting"


def test_the_next_session_waits_for_running_programs() -> None:
    """A scheduler that cannot stop a container is asked again; nothing is started beside a program that may still
    run."""
    simulation = started(workers(2, max_restarts=1))
    simulation.app.handle(ev.Exited(task=task("worker:0"), session=1, try_=1, status=FAILED, at=1.0), 1.0)
    now, kills = 1.0, 0
    for _ in range(5):
        wake = simulation.app.state.timers.find_next()
        assert wake
        now = wake[0]
        actions = simulation.app.handle(ev.DeadlinePassed(deadline=wake[1]), now)
        kills += sum(isinstance(a, act.Kill) for a in actions)
        assert not any(isinstance(a, act.OpenSession | act.Finish) for a in actions)
    assert (kills, simulation.app.state.job) == (1, JobState.RESTARTING)
    actions = simulation.app.handle(ev.ContainerEnded(container="c-2", cause="at last"), now + 1.0)
    assert any(isinstance(a, act.OpenSession) for a in actions)
    assert Deadline.parse("force-limit") not in simulation.app.state.timers


def test_messages_of_an_older_session_change_nothing() -> None:
    """An exit report of session 1 that comes in session 2 is counted and dropped."""
    simulation = started(workers(2, max_restarts=1))
    simulation.exit(task("worker:0"), FAILED)
    simulation.run()
    before = simulation.app.compute_digest()
    simulation.deliver(ev.Exited(task=task("worker:1"), session=1, try_=1, status=FAILED, at=0.0))
    assert simulation.app.compute_digest() == before
    assert simulation.app.state.refused == 1


def test_finished_tasks_keep_their_container_while_a_restart_is_possible() -> None:
    """With restarts left nothing is given back early; without, a finished task's container goes at once."""
    for restarts, released in ((1, 0), (0, 1)):
        simulation = started(with_restarts(staged(), restarts))
        simulation.exit(task("prep:0"), OK)
        simulation.run()
        assert len(made(simulation, act.Release)) == released


def test_the_end_of_a_forced_stop_does_not_reach_into_the_next_session() -> None:
    """A program had to be killed before a restart: no program of the next session is killed for it."""
    simulation = Simulation(workers(2, max_restarts=1))
    simulation.stubborn.add(task("worker:1"))
    simulation.begin()
    simulation.run()
    simulation.exit(task("worker:0"), FAILED)
    simulation.run()
    assert simulation.app.state.job is JobState.RESTARTING
    simulation.advance()
    simulation.run()
    assert simulation.app.state.session == 2
    kills = made(simulation, act.Kill)
    assert [kill.container for kill in kills] == ["c-2"]
    while simulation.advance():
        simulation.run()
    assert made(simulation, act.Kill) == kills
    assert {p.session for p in simulation.running()} == {2}
    assert len(simulation.running()) == 2


def test_roles_that_finished_give_their_containers_back_when_the_next_session_opens() -> None:
    """They are kept for a restart only until it is known that it does without them."""
    simulation = started(with_restarts(staged(), 2))
    for name in ("prep:0", "prep:1"):
        simulation.exit(task(name), OK)
    simulation.run()
    assert made(simulation, act.Release) == []
    simulation.exit(task("worker:0"), FAILED)
    simulation.run()
    assert simulation.app.state.session == 2
    assert {a.container for a in made(simulation, act.Release)} == {"c-1", "c-2"}
    assert states(simulation)["prep:0"] == "succeeded"
    finish_all(simulation)
    assert outcome(simulation) == ("succeeded", 0, None)


def test_a_stage_that_runs_again_gets_room_from_those_after_it() -> None:
    """A job holds no more than its stages need one after the other; an uncharged restart must live on that as well."""
    spec = roles(
        prep=Role(),
        ps=Role(kind=RoleKind.UNTRACKED),
        worker=Role(after={"prep": AfterCondition.SUCCEEDED}),
    )
    simulation = started(spec, capacity=2)
    simulation.exit(task("prep:0"), OK)
    simulation.run()
    assert states(simulation)["worker:0"] == "running"
    simulation.exit(task("worker:0"), COLLISION)
    simulation.run()
    assert states(simulation) == {"prep:0": "running", "ps:0": "running", "worker:0": "pending"}
    simulation.exit(task("prep:0"), OK)
    simulation.run()
    assert states(simulation)["worker:0"] == "running"


# --- containers that fail ---------------------------------------------------------------------------------------------


def test_a_container_that_ends_before_registering_is_replaced() -> None:
    """Uncharged; after three of them in each of three sessions in a row the job fails as infrastructure."""
    simulation = Simulation(workers(1))
    simulation.begin()
    for _ in range(MAX_LAUNCHES * (1 + MAX_LAUNCH_RESTARTS)):
        simulation.run(until=lambda: bool(simulation.executors))
        if not simulation.executors:
            simulation.advance()  # the back-off
            simulation.run(until=lambda: bool(simulation.executors))
        simulation.pending.clear()
        simulation.lose(next(iter(simulation.executors)), "disk full")
    assert outcome(simulation) == ("failed", 3, "launch")
    assert "disk full" in simulation.failure.reason


def test_only_needed_containers_are_requested() -> None:
    """The released container of a finished task is not requested again with one that another task needs."""
    simulation = Simulation(workers(2, distributed_mode=DistributedMode.FCFS))
    simulation.begin()
    simulation.run(until=lambda: len(simulation.executors) == 2)
    simulation.pending = [p for p in simulation.pending if getattr(p.event, "task", None) == task("worker:0")]
    simulation.run()
    simulation.exit(task("worker:0"), OK)
    simulation.run()
    assert states(simulation) == {"worker:0": "succeeded", "worker:1": "starting"}
    simulation.lose("c-2")
    simulation.run()
    assert [a.total for a in made(simulation, act.SetDemand)] == [2, 1]
    assert states(simulation)["worker:1"] == "running"


def test_the_pending_reason_holds_until_no_request_is_pending() -> None:
    """A scheduler reports it once: a grant to another role does not clear it."""
    simulation = started(workers(2), capacity=0)
    simulation.deliver(ev.Queued(reason="no room for worker"))
    simulation.capacity = 1
    simulation.grant()
    simulation.run()
    assert simulation.app.state.queue_reason == "no room for worker"
    simulation.capacity = 2
    simulation.grant()
    simulation.run()
    assert (simulation.app.state.queue_reason, simulation.app.state.job) == ("", JobState.RUNNING)


def test_unknown_containers_are_stopped() -> None:
    """They are of an attempt whose log does not have them."""
    simulation = Simulation(workers(1))
    simulation.app.handle(ev.AttemptStarted(attempt=1, wall=0.0, settings="x"), 0.0)
    actions = simulation.app.handle(ev.ContainersFound(containers=("c-7", "c-8")), 0.0)
    assert [a.container for a in actions if isinstance(a, act.Kill)] == ["c-7", "c-8"]


def test_a_repeated_grant_of_an_exited_container_changes_nothing() -> None:
    """Events may be late and duplicate; an exited container is assigned to no task."""
    simulation = Simulation(workers(1))
    simulation.begin()
    simulation.run(until=lambda: bool(simulation.executors))
    granted = next(e for e, _ in simulation.log if isinstance(e, ev.Granted))
    simulation.pending.clear()
    simulation.demand.clear()
    simulation.lose("c-1")
    simulation.run()
    before = simulation.app.compute_digest()
    assert states(simulation) == {"worker:0": "requested"}
    assert simulation.deliver(granted) == []
    assert simulation.app.compute_digest() == before


def test_a_failed_launch_gets_another_container() -> None:
    """ActionFailed gives the task another container."""
    simulation = Simulation(workers(1))
    simulation.begin()
    simulation.run(until=lambda: bool(simulation.executors))
    simulation.pending.clear()
    simulation.executors.clear()
    simulation.containers.clear()
    simulation.deliver(ev.ActionFailed(action="launch", cause="no", container="c-1"))
    simulation.grant()
    simulation.run()
    assert states(simulation) == {"worker:0": "running"}


@pytest.mark.parametrize("report_first", [True, False])
def test_report_and_container_end_may_come_in_either_order(report_first: bool) -> None:
    """A program's end is judged by its report, also when the container's end is heard of first."""
    simulation = started(workers(1))
    events: list[ev.Event] = [
        ev.Exited(task=task("worker:0"), session=1, try_=1, status=OK, at=1.0),
        ev.ContainerEnded(container="c-1", cause="gone"),
    ]
    simulation.executors.clear()
    simulation.containers.clear()
    simulation.now = 1.0
    for event in events if report_first else reversed(events):
        if not simulation.finished:
            simulation.deliver(event)
    assert outcome(simulation) == ("succeeded", 0, None)


@pytest.mark.parametrize("kind", RoleKind)
@pytest.mark.parametrize("policy", FailurePolicy)
@pytest.mark.parametrize("restarts", [0, 1])
@pytest.mark.parametrize("status", [OK, FAILED, SEGV, COLLISION, ExitStatus(reason=ExitReason.STOPPED)])
def test_either_order_leads_to_the_same_state(
    status: ExitStatus, restarts: int, policy: FailurePolicy, kind: RoleKind
) -> None:
    """Of every kind of end, for every kind of role, under every policy."""
    digests = []
    for order in (1, -1):
        spec = replace(roles(worker=Role(instances=2), other=Role(kind=kind)), failure_policy=policy)
        simulation = started(with_restarts(spec, restarts))
        exited = ev.Exited(task=task("other:0"), session=1, try_=1, status=status, at=4.0)
        for event in (exited, ev.ContainerEnded(container="c-3", cause="gone"))[::order]:
            simulation.app.handle(event, 5.0)
        digests.append(simulation.app.compute_digest())
    assert digests[0] == digests[1]


def test_a_lost_container_without_a_report_is_infrastructure() -> None:
    """After a short wait for the report the task counts as lost, from the moment its container ended."""
    simulation = started(workers(2))
    simulation.now = 5.0
    simulation.lose("c-1", "executor killed by SIGKILL")
    simulation.run()
    assert states(simulation)["worker:0"] == "running"
    simulation.advance()
    assert simulation.now == 5.0 + REPORT_WAIT_SECONDS
    assert outcome(simulation) == ("failed", 3, "lost")
    assert simulation.failure.at == 5.0


def test_a_task_without_container_and_connection_is_lost_at_once() -> None:
    """No report can follow."""
    simulation = started(workers(1, max_restarts=1))
    simulation.executors.clear()
    simulation.containers.clear()
    simulation.deliver(
        ev.ContainerEnded(container="c-1", cause="executor killed by SIGKILL", confirmation=ev.EndConfirmation.SILENT)
    )
    assert [v.failure.cause for v in made(simulation, act.ReportFailure)] == ["lost"]
    assert simulation.app.state.job is JobState.RESTARTING


def test_a_lost_peer_is_the_root_cause() -> None:
    """The others' own errors come first by report, but not by time."""
    simulation = started(workers(2))
    simulation.now = 5.0
    simulation.lose("c-1", "executor killed by SIGKILL")
    simulation.run()
    simulation.now = 5.5
    simulation.exit(task("worker:1"), FAILED)
    assert outcome(simulation) == ("failed", 3, "lost")


def test_silence_ends_the_container_before_anything_replaces_it() -> None:
    """A silent executor may still run its program: kill, wait for the proof, then open the next session."""
    simulation = started(workers(2, max_restarts=1))
    silent = ev.Silent(task=task("worker:0"), incarnation="i-c-1", silence=25.0, container="c-1")
    actions = simulation.app.handle(silent, 30.0)
    assert any(isinstance(a, act.Kill) and a.container == "c-1" for a in actions)
    assert not any(isinstance(a, act.OpenSession) for a in actions)
    assert simulation.app.state.tasks[task("worker:0")].living


@pytest.mark.parametrize("registered", [0, 1])
def test_an_executor_that_freezes_before_its_program_was_started_is_replaced(registered: int) -> None:
    """Before or after it registered: no program of it can live, so another container is requested, uncharged."""
    simulation = Simulation(workers(2))
    simulation.begin()
    simulation.run(until=lambda: len(simulation.executors) == 2)
    kept, simulation.pending = simulation.pending[registered:], simulation.pending[:registered]
    simulation.run()
    simulation.freeze("c-1")
    actions = simulation.deliver(ev.Silent(task=task("worker:0"), incarnation="i-c-1", silence=25.0, container="c-1"))
    assert [a.container for a in actions if isinstance(a, act.Kill)] == ["c-1"]
    assert states(simulation)["worker:0"] == "requested"
    assert [a.total for a in made(simulation, act.SetDemand)] == [2]
    simulation.pending += kept
    finish_all(simulation)
    assert outcome(simulation) == ("succeeded", 0, None)
    assert made(simulation, act.ReportFailure) == []


def test_silence_of_a_replaced_executor_does_not_affect_its_successor() -> None:
    """It is about another container, even if the new executor has not registered yet."""
    simulation = Simulation(workers(1))
    simulation.begin()
    simulation.run(until=lambda: bool(simulation.executors))
    simulation.pending.clear()
    simulation.lose("c-1")
    simulation.run(until=lambda: "c-2" in simulation.executors)
    before = simulation.app.compute_digest()
    old = ev.Silent(task=task("worker:0"), incarnation="i-c-1", silence=25.0, container="c-1")
    assert simulation.deliver(old) == []
    assert simulation.app.compute_digest() == before


def test_a_lost_container_is_requested_while_the_others_still_stop() -> None:
    """A cluster may need long to find one: it is requested from the decision on, not from the next session on."""
    simulation = Simulation(workers(3, max_restarts=1))
    simulation.stubborn.add(task("worker:2"))
    simulation.begin()
    simulation.run()
    simulation.lose("c-2", "its node burned", silent=True)
    simulation.run()
    assert simulation.app.state.job is JobState.RESTARTING
    assert [a.total for a in made(simulation, act.SetDemand)][-1] == 3
    launch = made(simulation, act.Launch)[-1]
    assert (launch.container, launch.task, launch.session) == ("c-4", task("worker:1"), 1)
    assert states(simulation)["worker:1"] == "lost"
    simulation.exit(task("worker:2"), OK)
    simulation.run()
    assert {p.session for p in simulation.running()} == {2}
    assert "c-4" in simulation.executors
    finish_all(simulation)
    assert outcome(simulation) == ("succeeded", 0, None)


def test_a_request_that_is_refused_while_the_others_still_stop_fails_the_job() -> None:
    """It is not made again when the next session opens."""
    simulation = Simulation(workers(2, max_restarts=1))
    simulation.stubborn.add(task("worker:1"))
    simulation.begin()
    simulation.run()
    simulation.lose("c-1", "its node burned", silent=True)
    simulation.deliver_pending()
    assert simulation.app.state.job is JobState.RESTARTING
    simulation.deliver(ev.Unsatisfiable(role="worker", reason="a policy forbids it"))
    simulation.exit(task("worker:1"), OK)
    simulation.run()
    assert outcome(simulation)[::2] == ("failed", "refused")


def test_failing_early_requests_are_not_repeated_for_ever() -> None:
    """A long back-off does not become a loop of containers that die."""
    simulation = Simulation(workers(1, max_restarts=3, backoff=50.0))
    simulation.begin()
    for _ in range(2):
        simulation.run()
        simulation.lose(next(iter(simulation.executors)), "its node burned", silent=True)
        simulation.deliver_pending()
    assert simulation.app.state.job is JobState.RESTARTING
    for _ in range(50):
        for container in list(simulation.containers):
            simulation.lose(container, "again", silent=True)
        simulation.run()
    assert simulation.containers == {}
    assert len(made(simulation, act.Launch)) == 2 + MAX_LAUNCHES
    simulation.advance()
    finish_all(simulation)
    assert outcome(simulation) == ("succeeded", 0, None)


def test_no_early_request_where_there_may_be_no_room() -> None:
    """A job without restarts of its own holds only what its stages need one after the other."""
    simulation = started(workers(2))
    simulation.stubborn.add(task("worker:1"))
    simulation.exit(task("worker:0"), COLLISION)
    simulation.run()
    assert simulation.app.state.job is JobState.RESTARTING
    simulation.lose("c-1")
    simulation.run()
    assert simulation.containers == {"c-2": "worker"}


def test_a_kill_cancels_early_requests() -> None:
    """The containers that were requested for the next session are released with the others."""
    simulation = Simulation(workers(2, max_restarts=1))
    simulation.stubborn.add(task("worker:1"))
    simulation.begin()
    simulation.run()
    simulation.lose("c-1", silent=True)
    simulation.run()
    assert "c-3" in simulation.executors
    simulation.deliver(ev.KillRequested(actor=Actor("ann")))
    assert made(simulation, act.SetDemand)[-1].total == 0
    assert [a.container for a in made(simulation, act.Release)] == ["c-3"]
    assert outcome(simulation) == ("killed", 4, "killed")


# --- limits of time ---------------------------------------------------------------------------------------------------


def _late(spec: JobSpec, capacity: int = 100) -> tuple[str, int, str | None]:
    simulation = started(spec, capacity=capacity)
    return outcome(simulation)


def test_time_outs() -> None:
    """Each time-out ends the job with its own cause and class."""
    one = workers(1)
    assert _late(replace(one, timeouts=Timeouts(allocation=5.0)), capacity=0) == ("failed", 3, "allocation-timeout")
    assert _late(replace(one, timeouts=Timeouts(startup=5.0))) == ("failed", 1, "startup-timeout")
    assert _late(replace(one, timeouts=Timeouts(execution=5.0))) == ("failed", 1, "execution-timeout")
    assert _late(replace(one, timeouts=Timeouts(job=5.0))) == ("failed", 1, "job-timeout")


def test_registration_time_out() -> None:
    """An executor that never registers, in three sessions in a row, fails the job as infrastructure."""
    simulation = Simulation(workers(1, timeouts=Timeouts(registration=5.0)))
    simulation.begin()
    for _ in range(1000):
        simulation.pending = [p for p in simulation.pending if not isinstance(p.event, ev.Registered)]
        if simulation.pending:
            simulation.deliver_pending()
        elif not simulation.advance():
            break
    assert simulation.app.state.session == 1 + MAX_LAUNCH_RESTARTS
    assert outcome(simulation) == ("failed", 3, "registration-timeout")


def test_a_sidecar_without_a_container_runs_into_no_allocation_time_out() -> None:
    """It is not waited for, so it may come at any time."""
    spec = replace(roles(worker=Role(), board=Role(kind=RoleKind.SIDECAR)), timeouts=Timeouts(allocation=5.0))
    simulation = started(spec, capacity=1)
    assert simulation.app.state.timers.find_next() is None
    simulation.exit(task("worker:0"), OK)
    assert outcome(simulation) == ("succeeded", 0, None)


def test_a_timeout_after_the_container_exited_counts_as_its_loss() -> None:
    simulation = started(replace(workers(1), timeouts=Timeouts(execution=5.0)))
    simulation.now = 4.0
    simulation.lose("c-1", "its node burned")
    simulation.run()
    simulation.advance()
    assert simulation.now == 5.0
    assert outcome(simulation) == ("failed", 3, "lost")


def test_one_try_is_judged_once() -> None:
    """A tolerated program that ran out of its time and then ends well, or is silent as well, is one failure."""
    spec = roles(worker=Role(), board=Role(kind=RoleKind.SIDECAR))
    simulation = Simulation(replace(spec, timeouts=Timeouts(execution=5.0, startup=6.0)))
    simulation.stubborn.add(task("board:0"))
    simulation.begin()
    simulation.run()
    simulation.deliver(ev.FirstOutput(task=task("worker:0"), session=1, try_=1))
    simulation.app.state.timers.cancel(Deadline.parse("execution:worker:0"))
    while simulation.advance():
        pass
    assert simulation.now == 6.0
    simulation.exit(task("board:0"), OK)
    simulation.run()
    assert [v.failure.cause for v in made(simulation, act.ReportFailure)] == ["execution-timeout"]
    assert states(simulation) == {"worker:0": "running", "board:0": "failed"}


def test_output_ends_the_start_up() -> None:
    """A program that printed something is past its start-up time-out."""
    simulation = started(workers(1, timeouts=Timeouts(startup=5.0)))
    simulation.deliver(ev.FirstOutput(task=task("worker:0"), session=1, try_=1))
    assert simulation.app.state.timers.find_next() is None


@pytest.mark.parametrize(("rule", "exit_code"), [(OnTimeout.FAIL, 1), (OnTimeout.IGNORE, 0)])
def test_group_time_out(rule: OnTimeout, exit_code: int) -> None:
    """Once the trainers are done the evaluator may run so much longer; then fail, or do not wait for it."""
    late = Role(timeout_after=TimeoutAfter(group="trainers", limit=60.0, on_timeout=rule))
    spec = replace(roles(chief=Role(), worker=Role(), evaluator=late), groups={"trainers": ("chief", "worker")})
    simulation = started(spec)
    simulation.exit(task("chief:0"), OK)
    simulation.run()
    assert Deadline.parse("group:evaluator") not in simulation.app.state.timers
    simulation.exit(task("worker:0"), OK)
    simulation.run()
    _, code, cause = outcome(simulation)
    assert (code, cause) == (exit_code, "group-timeout" if exit_code else None)
    assert states(simulation)["evaluator:0"] == ("failed" if exit_code else "stopped")
    if exit_code:
        reason = simulation.failure.reason
        said = ("1 m 00 s", "evaluator:0", "running", "group trainers", "roles.evaluator.timeout_after")
        assert mentions(reason, *said)


def test_a_group_time_out_counts_for_tasks_without_a_container() -> None:
    """LinkedIn TonY started the limit when all had a container; here no task waits for ever."""
    late = Role(timeout_after=TimeoutAfter(group="g", limit=60.0), after={"worker": AfterCondition.SUCCEEDED})
    simulation = started(replace(roles(worker=Role(), report=late), groups={"g": ("worker",)}))
    simulation.capacity = 0
    simulation.exit(task("worker:0"), OK)
    assert outcome(simulation) == ("failed", 1, "group-timeout")


def test_after_an_ignored_time_out_a_failure_still_counts() -> None:
    """The role became untracked: not waited for, but its failure fails the job while others are."""
    late = Role(timeout_after=TimeoutAfter(group="g", limit=1.0, on_timeout=OnTimeout.IGNORE))
    spec = replace(roles(prep=Role(), evaluator=late, worker=Role()), groups={"g": ("prep",)})
    simulation = started(spec)
    simulation.exit(task("prep:0"), OK)
    simulation.run()
    simulation.advance()
    assert simulation.app.state.roles["evaluator"].kind is RoleKind.UNTRACKED
    simulation.exit(task("evaluator:0"), FAILED)
    assert outcome(simulation) == ("failed", 1, "program")


def _after_prep(**more: Any) -> JobSpec:
    """An evaluator that may continue for a minute after the preparation, beside a worker."""
    late = Role(timeout_after=TimeoutAfter(group="g", limit=60.0), **more)
    worker = Role(after={"prep": AfterCondition.SUCCEEDED})
    return replace(roles(prep=Role(), evaluator=late, worker=worker), groups={"g": ("prep",)})


def test_a_group_done_before_a_restart_still_limits_later_roles() -> None:
    """Its members do not run again, so no event of the new session would start the timer."""
    late = Role(timeout_after=TimeoutAfter(group="g", limit=60.0), after={"prep": AfterCondition.SUCCEEDED})
    worker = Role(after={"prep": AfterCondition.SUCCEEDED})
    spec = replace(roles(prep=Role(), evaluator=late, worker=worker), groups={"g": ("prep",)}, max_restarts=1)
    simulation = started(spec)
    simulation.exit(task("prep:0"), OK)
    simulation.run()
    simulation.now = 10.0
    simulation.exit(task("worker:0"), FAILED)
    simulation.run()
    assert (simulation.app.state.session, states(simulation)["prep:0"]) == (2, "succeeded")
    assert simulation.app.state.timers.all == {Deadline.parse("group:evaluator"): 70.0}
    assert outcome(simulation) == ("failed", 1, "group-timeout")


def test_a_group_time_out_of_a_stop_on_failure_role_is_final() -> None:
    """No restart for it, whatever is left."""
    simulation = started(with_restarts(_after_prep(stop_on_failure=True), 3))
    simulation.exit(task("prep:0"), OK)
    simulation.run()
    assert outcome(simulation) == ("failed", 1, "group-timeout")
    assert simulation.app.state.session == 1


def test_a_group_time_out_of_any_other_role_restarts() -> None:
    simulation = started(with_restarts(_after_prep(), 1))
    simulation.exit(task("prep:0"), OK)
    simulation.run()
    simulation.advance()
    simulation.run()
    assert simulation.app.state.session == 2


# --- kill and end -----------------------------------------------------------------------------------------------------


def test_a_second_kill_leaves_out_the_grace() -> None:
    """`kill-now` while stopping repeats Stop without grace."""
    simulation = started(workers(1))
    simulation.app.handle(ev.KillRequested(actor=Actor("ann")), 1.0)
    again = simulation.app.handle(ev.KillRequested(actor=Actor("ann"), now=True), 2.0)
    assert [a.grace for a in again if isinstance(a, act.Stop)] == [0.0]


def test_the_job_ends_although_a_container_never_does() -> None:
    """A scheduler that never confirms an end does not hold the record open for ever."""
    simulation = started(workers(1))
    now = 1.0
    simulation.app.handle(ev.KillRequested(actor=Actor("ann")), now)
    finish = None
    for _ in range(5):
        wake = simulation.app.state.timers.find_next()
        if wake is None:
            break
        now = wake[0]
        for action in simulation.app.handle(ev.DeadlinePassed(deadline=wake[1]), now):
            finish = action if isinstance(action, act.Finish) else finish
    assert finish
    assert (finish.state, states(simulation)) == (JobState.KILLED, {"worker:0": "lost"})
    assert simulation.app.handle(ev.Granted(container="c-1", role="worker", host="h"), now) == []


def test_after_the_result_the_queue_is_not_reported() -> None:
    """Queue positions from the scheduler are ignored then."""
    simulation = started(workers(1))
    simulation.deliver(ev.KillRequested(actor=Actor("ann")))
    simulation.deliver(ev.Queued(reason="behind another job"))
    assert simulation.app.state.queue_reason == ""


@pytest.mark.parametrize(("kind", "named"), [(RoleKind.TRACKED, 1), (RoleKind.UNTRACKED, 1), (RoleKind.SIDECAR, 0)])
def test_failures_while_the_job_stops_are_listed_with_the_root_cause(kind: RoleKind, named: int) -> None:
    """Except those of sidecars."""
    simulation = Simulation(roles(worker=Role(), board=Role(kind=kind)))
    simulation.stubborn.add(task("board:0"))
    simulation.begin()
    simulation.run()
    simulation.exit(task("worker:0"), FAILED)
    simulation.run()
    simulation.exit(task("board:0"), SEGV)
    assert outcome(simulation) == ("failed", 1, "program")
    assert len(simulation.failure.others) == named


def test_attempts_rise() -> None:
    """An attempt that does not rise is a bug of the shell: refused, state unchanged."""
    simulation = started(workers(1))
    before = simulation.app.compute_digest()
    with pytest.raises(InvalidTransitionError):
        simulation.app.handle(ev.AttemptStarted(attempt=1, wall=0.0, settings="x"), 2.0)
    assert simulation.app.compute_digest() == before


@pytest.mark.parametrize(
    ("order", "forced", "said"),
    [
        (1, True, "taken back"),
        (-1, True, "taken back"),
        (1, False, "its executor received a stop signal that the AM did not send"),
    ],
)
def test_the_cause_of_a_stop_from_outside(order: int, forced: bool, said: str) -> None:
    """The cluster or the node may report it, before the executor's report or after it; another end of the container
    does not explain it."""
    simulation = started(workers(2))
    status = ExitStatus(reason=ExitReason.STOPPED, signal="SIGTERM")
    exited = ev.Exited(task=task("worker:0"), session=1, try_=1, status=status, at=4.0)
    kill = ClusterKill.OTHER if forced else None
    ended = ev.ContainerEnded(container="c-1", cause="taken back", blameless=forced, kill=kill)
    for event in (exited, ended)[::order]:
        simulation.app.handle(event, 5.0)
    (failure,) = simulation.app.state.failures
    assert (failure.cause, failure.failure_class) == ("lost", FailureClass.INFRASTRUCTURE)
    assert failure.reason.startswith(f"worker:0 on h was stopped externally: {said}")


@pytest.mark.parametrize("told", ["report, end", "end, report", "end"])
def test_cluster_or_node_end_a_container_for_its_memory(told: str) -> None:
    """Then the program has failed as if we had done so, whether its executor can still report, and when."""
    simulation = started(workers(2))
    status = ExitStatus(reason=ExitReason.STOPPED, signal="SIGTERM", tail=("its last line",))
    exited = ev.Exited(task=task("worker:0"), session=1, try_=1, status=status, at=4.0)
    ended = ev.ContainerEnded(container="c-1", cause="2g used, 1g allowed", kill=ClusterKill.MEMORY_LIMIT)
    events: dict[str, ev.Event] = {"report": exited, "end": ended}
    for name in told.split(", "):
        simulation.app.handle(events[name], 5.0)
    if "report" not in told:
        simulation.app.handle(ev.DeadlinePassed(deadline=Deadline.parse("report:worker:0")), 8.0)
    (failure,) = simulation.app.state.failures
    assert (failure.cause, failure.failure_class) == ("memory", FailureClass.USER)
    host = simulation.app.state.tasks[task("worker:0")].host
    assert failure.reason == f"worker:0 on {host}: 2g used, 1g allowed"
    assert failure.tail == (status.tail if "report" in told else ())


def test_why_a_session_begins_is_corrected() -> None:
    """Who ended the container may be told while the other programs still stop."""
    simulation = started(workers(2, max_restarts=1))
    status = ExitStatus(reason=ExitReason.STOPPED, signal="SIGTERM")
    simulation.app.handle(ev.Exited(task=task("worker:0"), session=1, try_=1, status=status, at=4.0), 5.0)
    simulation.app.handle(ev.ContainerEnded(container="c-1", cause="taken back", kill=ClusterKill.OTHER), 5.0)
    status = ExitStatus(reason=ExitReason.STOPPED)
    actions = simulation.app.handle(ev.Exited(task=task("worker:1"), session=1, try_=1, status=status, at=5.0), 5.0)
    (opened,) = [action for action in actions if isinstance(action, act.OpenSession)]
    assert describe_opening(opened.reason).startswith("worker:0 on h was stopped externally: taken back")
