"""Whatever decides something is in the digest; what is not, is on a list here with its reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from tests.core.simulated import started
from tests.core.specs import FAILED, task, with_restarts, workers
from tests.support.simulation import Simulation
from tony.core.deadline import Deadline, Timers
from tony.core.events import ContainerEnded
from tony.core.reasons import GangReleased
from tony.core.state import ContainerIntent, Final, GrantedContainer, Restart, RoleState, State, Task
from tony.core.state_digest import MACHINE, compute_digest
from tony.model.failure import Failure, FailureCause, FailureClass
from tony.model.setting_choices import RoleKind
from tony.model.states import JobState, TaskState

FAILURE = Failure(failure_class=FailureClass.USER, cause=FailureCause.PROGRAM, reason="boom", session=1, at=1.0)

#: Fields that only tell people something, or that follow from others.
TOLD = {
    Task: {
        "id",
        "host",
        "tb_port",
        "executor_pid",
        "listens",
        "status",
        "note",
    },
    RoleState: {"name", "spec", "tasks", "counts", "held", "arrived", "used", "used_memory"},
    GrantedContainer: {"id", "host", "since"},
    State: {
        *("job_id", "spec", "chief"),  # what the machine was made with
        *("accepted_wall", "am_pid", "am_host", "settings", "restart", "session_reason", "ended_at"),
        "specs",  # follow from the addresses
        "unexplained",  # follow from the tasks
        "latest",  # of every event
        "stall",  # what it leads to follows from the event
        "stragglers",  # only reported
        *("refused", "_on_moved"),  # a count of what changed nothing; who looks on
        "ended_ids",  # ids that never come again; thousands
        *("roles", "tasks", "containers", "timers"),  # each looked at by itself
    },
}
OTHER: dict[str, Any] = {
    "state": TaskState.STOPPING,
    "container": None,
    "incarnation": None,
    "address": None,
    "container_ended_at": 7.0,
    "container_end": ContainerEnded(container="c-1", cause="preempted", blameless=True),
    "pid": None,
    "ended_at": 7.0,
    "kind": RoleKind.SIDECAR,
    "role": "other",
    "task": None,
    "intent": ContainerIntent.KILLED,
    "job": JobState.STOPPING,
    "queue_reason": "no room",
    "left_out": {1},
    "reconciling": True,
    "found": {"c-7"},
    "external_exit": FAILED,
    "retry_at": 7.0,
    "retried": "python-code at step 7",
    "started_at": None,
    "restarts": [Restart(7.0, "worker")],
    "hosts": {"h": [7.0]},
    "excluded": {"h"},
    "avoided": {"h"},
    "failures": [FAILURE],
    "suspects": [FAILURE],
    "tolerated": [FAILURE],
    "exports": {"worker": {"RESULT": (0, "7")}},
    "final": Final(JobState.KILLED, None),
}


def running() -> Simulation:
    simulation = started(with_restarts(workers(2), 1))
    return simulation


def changed(holder: object, name: str) -> None:
    before = getattr(holder, name)
    if name in OTHER:
        after = OTHER[name]
    elif name == "waiting":
        before.join(1)
        return
    else:
        after = (not before) if isinstance(before, bool) else before + 1
    assert after != before
    setattr(holder, name, after)


def names(cls: type[Any]) -> list[str]:
    """Every field of a class, but for those on the list."""
    every = vars(State("j", workers(1))) if cls is State else [field.name for field in fields(cls)]
    assert TOLD[cls] <= set(every)
    return [name for name in every if name not in TOLD[cls]]


PARTS: dict[type[Any], Callable[[State], object]] = {
    Task: lambda state: state.tasks[task("worker:0")],
    RoleState: lambda state: state.roles["worker"],
    GrantedContainer: lambda state: state.containers["c-1"],
    State: lambda state: state,
}


@pytest.mark.parametrize(("cls", "name"), [(cls, name) for cls in PARTS for name in names(cls)])
def test_a_difference_shows(cls: type[Any], name: str) -> None:
    """Two states that differ in one thing that decides have two digests."""
    state = running().app.state
    before = compute_digest(state)
    changed(PARTS[cls](state), name)
    assert compute_digest(state) != before


def test_deadlines_show() -> None:
    state = running().app.state
    before = compute_digest(state)
    state.timers.set(Deadline.parse("job"), 9.0)
    with_one = compute_digest(state)
    state.timers.set(Deadline.parse("job"), 10.0)
    assert len({before, with_one, compute_digest(state)}) == 3
    assert isinstance(state.timers, Timers)


def test_notes_do_not_change_the_digest() -> None:
    """A task may have another note without another version of the machine."""
    state = running().app.state
    before = compute_digest(state)
    state.tasks[task("worker:0")].note = GangReleased()
    state.tasks[task("worker:0")].status = FAILED
    assert compute_digest(state) == before


def test_the_version_precedes_the_digest() -> None:
    """A reader can tell whether two digests are comparable."""
    version, _, rest = compute_digest(State("j", workers(1))).partition("-")
    assert (version, len(rest)) == (str(MACHINE), 64)
    assert compute_digest(State("j", workers(1))) != compute_digest(State("j", workers(2)))
