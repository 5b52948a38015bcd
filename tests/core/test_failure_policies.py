"""Which exits end a job under each failure policy; `chief-or-all` is that of LinkedIn TonY, row by row.

Where LinkedIn TonY had a defect, the row says what is right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from tests.core.simulated import started
from tests.core.specs import FAILED, OK, SEGV, roles, task
from tests.support.simulation import Simulation
from tony.core import actions as act
from tony.model.job_spec import JobSpec, Role, TimeoutAfter, Timeouts
from tony.model.program_exit import ExitStatus
from tony.model.setting_choices import FailurePolicy, OnTimeout, RoleKind

U, S = RoleKind.UNTRACKED, RoleKind.SIDECAR
ANY, TRACKED = FailurePolicy.ANY_TASK, FailurePolicy.ANY_TRACKED

#: What happens, in order: who ends, and how.
Story = Sequence[tuple[str, ExitStatus]]
#: How it comes out: `continues`, `succeeded`, or `failed` with the task that is blamed.
CONTINUES, SUCCEEDED = "continues", "succeeded"


def job(by_name: Mapping[str, Role], policy: FailurePolicy = FailurePolicy.CHIEF_OR_ALL) -> JobSpec:
    """A job of these roles under a policy."""
    return replace(roles(**by_name), failure_policy=policy)


def told(simulation: Simulation) -> str:
    simulation.run()
    if simulation.finished is None:
        return CONTINUES
    failure = simulation.finished.failure
    return f"failed: {failure.task}" if failure else SUCCEEDED


CHIEF = {"chief": Role(), "worker": Role(instances=2)}
PAIR = {"a": Role(), "b": Role()}
WORKERS = {"worker": Role(instances=3)}
TWO_CHIEFS = {"chief": Role(instances=2), "worker": Role()}
WITH_PS = {**WORKERS, "ps": Role(kind=U)}
WITH_BOARD = {**WORKERS, "tensorboard": Role(kind=S)}
GUARDED = {**WORKERS, "db": Role(stop_on_failure=True)}
SIDECAR_GUARD = {**WORKERS, "db": Role(kind=S, stop_on_failure=True)}
BOARD, PS = ("tensorboard:0", FAILED), ("ps:0", FAILED)
W0, W1, W2 = "worker:0", "worker:1", "worker:2"

TABLE: list[tuple[str, JobSpec, Story, str]] = [
    ("the chief fails: at once", job(CHIEF), [("chief:0", FAILED)], "failed: chief:0"),
    ("every task of the type chief is one", job(TWO_CHIEFS), [("chief:1", FAILED)], "failed: chief:1"),
    ("worker:0 is the chief where there is no other", job(WORKERS), [(W0, SEGV)], "failed: worker:0"),
    ("with a chief worker:0 is none", job(CHIEF), [(W0, FAILED)], CONTINUES),
    ("another tracked one fails: counted", job(WORKERS), [(W1, FAILED)], CONTINUES),
    ("and tolerated at the end", job(WORKERS), [(W1, FAILED), (W2, SEGV), (W0, OK)], SUCCEEDED),
    ("unless every one failed", job(PAIR), [("a:0", FAILED), ("b:0", SEGV)], "failed: a:0"),
    ("one success among many is enough", job(PAIR), [("a:0", FAILED), ("b:0", OK)], SUCCEEDED),
    ("the chief's success does not end it", job(CHIEF), [("chief:0", OK)], CONTINUES),
    ("but that of all does", job(CHIEF), [("chief:0", OK), (W0, OK), (W1, OK)], SUCCEEDED),
    ("stop-on-failure: at once", job(GUARDED), [("db:0", FAILED)], "failed: db:0"),
    ("an untracked one fails: at once", job(WITH_PS), [PS], "failed: ps:0"),
    ("an untracked one is not waited for", job(WITH_PS), [(W0, OK), (W1, OK), (W2, OK)], SUCCEEDED),
    ("nor minds its success", job(WITH_PS), [("ps:0", OK)], CONTINUES),
    (
        "an untracked chief fails: at once",
        job({"chief": Role(kind=U), "a": Role()}),
        [("chief:0", FAILED)],
        "failed: chief:0",
    ),
    ("a sidecar fails: ignored", job(WITH_BOARD), [BOARD, (W0, OK), (W1, OK), (W2, OK)], SUCCEEDED),
    ("fail-on-worker-failure: any tracked one", job(WORKERS, ANY), [(W1, FAILED)], "failed: worker:1"),
    ("any untracked one", job(WITH_PS, ANY), [PS], "failed: ps:0"),
    ("and any sidecar", job(WITH_BOARD, ANY), [BOARD], "failed: tensorboard:0"),
    ("a guard ends the job, also as a sidecar", job(SIDECAR_GUARD), [("db:0", FAILED)], "failed: db:0"),
    ("under any policy", job(SIDECAR_GUARD, TRACKED), [("db:0", FAILED)], "failed: db:0"),
    ("a sidecar is no chief", job({"chief": Role(kind=S), "worker": Role()}), [("chief:0", FAILED)], CONTINUES),
    ("any-tracked: any tracked one", job(WORKERS, TRACKED), [(W1, FAILED)], "failed: worker:1"),
    ("an untracked one", job(WITH_PS, TRACKED), [PS], "failed: ps:0"),
    ("but no sidecar", job(WITH_BOARD, TRACKED), [BOARD], CONTINUES),
]


@pytest.mark.parametrize(("spec", "story", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_which_exits_end_a_job(spec: JobSpec, story: Story, expected: str) -> None:
    """The programs exit one after the other; none before the last one decides."""
    simulation = started(spec)
    for who, status in story[:-1]:
        simulation.exit(task(who), status)
        assert told(simulation) == CONTINUES
    simulation.exit(task(story[-1][0]), story[-1][1])
    assert told(simulation) == expected


@pytest.mark.parametrize(
    ("spec", "who", "expected"),
    [
        (job({"worker": Role()}), W0, "failed: worker:0"),
        (job({"chief": Role(), "worker": Role()}), W0, SUCCEEDED),
        (job({"a": Role(), "b": Role(kind=U)}), "a:0", "failed: a:0"),
    ],
    ids=["the only one", "others succeed", "the only tracked one"],
)
def test_a_tracked_task_that_we_end_counts_as_failed(spec: JobSpec, who: str, expected: str) -> None:
    """It ran longer than it may, and was stopped: whatever its exit code, that is no success."""
    simulation = started(replace(spec, timeouts=Timeouts(execution=60.0)))
    for program in simulation.running():
        if program.task not in (task(who), task("b:0")):
            simulation.exit(program.task, OK)
    simulation.run()
    assert simulation.advance()
    assert told(simulation) == expected


def test_of_the_tracked_that_are_left_one_must_succeed() -> None:
    """A role that outlives its group and is not waited for any longer leaves no task that could still succeed."""
    late = Role(timeout_after=TimeoutAfter(group="trainers", limit=30.0, on_timeout=OnTimeout.IGNORE))
    simulation = started(replace(job({"a": Role(instances=2), "evaluator": late}), groups={"trainers": ("a",)}))
    simulation.exit(task("a:0"), FAILED)
    simulation.exit(task("a:1"), SEGV)
    assert told(simulation) == CONTINUES
    assert simulation.advance()
    assert told(simulation) == "failed: a:0"


def test_an_evaluator_that_outlives_its_group_is_cut_off() -> None:
    """Only such a limit ends those who hang; then the job succeeds by those who did."""
    late = Role(timeout_after=TimeoutAfter(group="trainers", limit=30.0, on_timeout=OnTimeout.IGNORE))
    simulation = started(replace(job({"a": Role(instances=2), "evaluator": late}), groups={"trainers": ("a",)}))
    simulation.exit(task("a:0"), FAILED)
    simulation.exit(task("a:1"), OK)
    assert told(simulation) == CONTINUES
    assert simulation.advance()
    assert told(simulation) == SUCCEEDED


def unready(spec: JobSpec, who: str) -> Simulation:
    """Containers of one task end before their executor has registered, however many there are."""
    simulation = Simulation(spec)
    simulation.begin()
    while not simulation.finished and (simulation.pending or simulation.advance()):
        own = [c for c, owner in simulation.guarantees.launched.items() if owner == task(who)]
        for container in own:
            simulation.lose(container, "its executor could not start", silent=True)
        if simulation.pending:
            simulation.deliver_pending()
    return simulation


def test_a_sidecar_that_fails_before_it_registers_is_ignored() -> None:
    """And the gang does not wait for it: in LinkedIn TonY it failed the job, and held up the others (G4)."""
    simulation = unready(job(WITH_BOARD), "tensorboard:0")
    assert simulation.app.state.tasks[task("tensorboard:0")].state.value == "failed"
    decisions = [(a.failure.task, a.decision) for a in simulation.actions if isinstance(a, act.ReportFailure)]
    assert decisions == [(task("tensorboard:0"), "tolerate")]
    for who in (W0, W1, W2):
        assert told(simulation) == CONTINUES
        simulation.exit(task(who), OK)
    assert told(simulation) == SUCCEEDED


def test_another_task_that_fails_before_it_registers_fails_the_job() -> None:
    """A gang without any one of its members is incomplete."""
    assert told(unready(job(WORKERS), W2)) == "failed: worker:2"
