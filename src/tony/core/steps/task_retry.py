"""One task alone starts again, as its next try in the same session (`restart = "task"`), while the others run on."""

from __future__ import annotations

from tony.core import actions as act
from tony.core.policies import restart_policy as policy
from tony.core.state import State, Task
from tony.core.step_context import StepContext
from tony.core.steps import containers, gang_start, node_exclusion, session_restart, task_attempts
from tony.core.transitions import TaskMove
from tony.model.job_report import Failure
from tony.model.states import RestartScope, RoleKind


def is_bound(state: State, task: Task) -> bool:
    """Whether a task cannot move: its peers have been given its address."""
    role = state.roles[task.id.role]
    if not role.version or role.kind is RoleKind.SIDECAR:
        return False
    return state.spec.tells_peers or (task is role.members[0] and role.name in state.spec.addressed_roles)


def decide(turn: StepContext, task: Task, failure: Failure) -> bool:
    """Whether a task that has failed starts again alone; if so, nothing else follows from its failure."""
    state = turn.state
    spec = state.roles[task.id.role].spec
    if spec.restart is not RestartScope.TASK or spec.stop_on_failure or not state.active:
        return False
    moves = _must_move(state, task) or node_exclusion.is_avoided(state, task) or failure.cause == "port-collision"
    if moves and is_bound(state, task):
        return False
    decision = policy.decide(state, failure, turn.now, alone=task)
    if not decision.restart:
        return False
    node_exclusion.blame(turn, failure)
    session_restart.book(turn, failure, decision, alone=task)
    task.again = turn.now + decision.delay
    task.note = f"{failure.reason} ({decision.reason})"
    turn.ask(act.Verdict(failure=failure, decision="retry", reason=f"only {task.name}: {decision.reason}"))
    if failure.cause == "port-collision":  # its ports are of no use: others are reserved in another container
        held = containers.held_by(state, task)
        if held:
            containers.end_by_force(turn, held, failure.reason)
    return True


def _must_move(state: State, task: Task) -> bool:
    held = containers.held_by(state, task)
    return held is None or held.given_back


def begin(turn: StepContext, task: Task, at: float) -> bool:
    """The program of a task that starts again is over, that is proved; it ended at `at`.

    False if it does not start again after all: its container is gone meanwhile, and its peers have its address.
    """
    state = turn.state
    assert task.again is not None
    bound = is_bound(state, task)
    if bound and _must_move(state, task):
        return False
    moves = _must_move(state, task) or (not bound and node_exclusion.is_avoided(state, task))
    note = task.note
    task_attempts.rest(turn, task, at)
    task.judged = False
    if moves:
        _elsewhere(turn, task)
    else:
        state.move_task(task, TaskMove.RETRY, turn.now)
    task.note = note
    if task.again > turn.now:
        state.timers.set(f"again:{task.name}", task.again)
    gang_start.go_on(turn, task)
    return True


def replace(turn: StepContext, task: Task) -> None:
    """The program of a task that starts again never ran in this try: it gets another container."""
    task.judged, task.launches = False, 0
    note = task.note
    if task.session != turn.state.session:
        task.again = None  # it starts with its gang
    elif task.again is not None and task.again > turn.now:
        turn.state.timers.set(f"again:{task.name}", task.again)
    _elsewhere(turn, task)
    task.note = note


def _elsewhere(turn: StepContext, task: Task) -> None:
    held = containers.held_by(turn.state, task)
    containers.request(turn, task, TaskMove.REPLACE)
    if held:
        containers.end_by_force(turn, held, "its task goes on in another one")
        containers.detach(turn.state, held)
    containers.settle_demand(turn, turn.state.roles[task.id.role])
