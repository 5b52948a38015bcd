"""The tables of transitions: every pair is allowed or refused, and a refusal changes nothing."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.core.sample_states import WAYS, standing
from tests.core.specs import workers
from tony.core.state import State
from tony.core.state_digest import build_fingerprint
from tony.core.transitions import (
    JOB_TABLE,
    TASK_TABLE,
    JobMove,
    TaskMove,
    find_next_job_state,
    find_next_task_state,
)
from tony.errors import InvalidTransitionError
from tony.model.ids import TaskId
from tony.model.states import ENDED_JOB_STATES, ENDED_TASK_STATES, LIVING_TASK_STATES, JobState, TaskState


@pytest.mark.parametrize(("state", "move"), list(product(TaskState, TaskMove)), ids=lambda each: str(each.value))
def test_every_move_of_a_task(state: TaskState, move: TaskMove) -> None:
    """Allowed: the counters follow. Refused: nothing has changed."""
    job = standing(workers(1), worker=state.value)
    (task,) = job.tasks.values()
    before = build_fingerprint(job)
    if (state, move) in TASK_TABLE:
        target = TASK_TABLE[state, move]
        assert find_next_task_state(state, move, TaskId("worker", 0)) is target
        job.move_task(task, move, 7.0)
        assert (task.state, task.since) == (target, 7.0)
        assert job.roles["worker"].counts == {each: int(each is target) for each in TaskState}
        assert job.roles["worker"].arrived == ({0} if target is TaskState.REGISTERED else set())
    else:
        with pytest.raises(InvalidTransitionError, match=f"worker:0 is {state.value}: cannot {move.value}"):
            job.move_task(task, move, 7.0)
        assert build_fingerprint(job) == before


@pytest.mark.parametrize(("state", "move"), list(product(JobState, JobMove)), ids=lambda each: str(each.value))
def test_every_move_of_a_job(state: JobState, move: JobMove) -> None:
    """Allowed: as the table says. Refused: nothing has changed."""
    job = State("j", workers(1))
    job.job = state
    before = build_fingerprint(job)
    if (state, move) in JOB_TABLE:
        assert find_next_job_state(state, move) is JOB_TABLE[state, move]
        job.move_job(move)
        assert job.job is JOB_TABLE[state, move]
    else:
        with pytest.raises(InvalidTransitionError, match=f"the job is {state.value}: cannot {move.value}"):
            job.move_job(move)
        assert build_fingerprint(job) == before


def test_a_job_that_has_ended_never_moves_again() -> None:
    assert {state for state, _ in JOB_TABLE} & ENDED_JOB_STATES == set()


def test_a_task_that_has_ended_moves_only_into_a_new_session() -> None:
    """What happened in a session is not changed in it."""
    assert {move for state, move in TASK_TABLE if state in ENDED_TASK_STATES} == {TaskMove.RESET}


def test_a_program_is_not_forgotten() -> None:
    """While a program may live there is no way back to the beginning: only its end leads on, or its next try."""
    next_try = {TaskMove.RETRY, TaskMove.REPLACE}
    for state in LIVING_TASK_STATES:
        moves = {move: target for (source, move), target in TASK_TABLE.items() if source is state}
        assert {
            target for move, target in moves.items() if move not in next_try
        } <= ENDED_TASK_STATES | LIVING_TASK_STATES
        assert TaskState.PENDING not in moves.values()


def test_every_state_can_be_reached() -> None:
    """From the first one, and from every state there is a way to an end."""
    assert WAYS.keys() == set(TaskState)
    for table, first, ends in (
        (TASK_TABLE, TaskState.PENDING, ENDED_TASK_STATES),
        (JOB_TABLE, JobState.SUBMITTED, ENDED_JOB_STATES),
    ):
        arrows: set[tuple[object, object]] = {(source, target) for (source, _), target in table.items()}
        assert _closure({first}, arrows) == set(type(first))
        assert _closure(set(ends), {(b, a) for a, b in arrows}) == set(type(first))


def _closure(known: set[object], arrows: set[tuple[object, object]]) -> set[object]:
    while more := {b for a, b in arrows if a in known} - known:
        known = known | more
    return known


def test_the_diagram_shows_every_arrow() -> None:
    """The docs' picture is made from the table."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "architecture.md").read_text()
    lines = page.partition("<!-- begin job states -->")[2].partition("<!-- end")[0].splitlines()
    assert lines[2:4] == ["stateDiagram-v2", "    [*] --> submitted"]
    for (source, move), target in JOB_TABLE.items():
        (line,) = (line for line in lines if line.startswith(f"    {source.value} --> {target.value}: "))
        assert move.value in line.partition(": ")[2].split(", ")
    assert {line for line in lines if line.endswith("--> [*]")} == {f"    {s.value} --> [*]" for s in ENDED_JOB_STATES}
