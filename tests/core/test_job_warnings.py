"""A job that succeeds although the output of a task ends with a traceback."""

from __future__ import annotations

from dataclasses import replace

from tests.core.simulated import seen, started
from tests.core.specs import OK, roles, task, workers
from tests.facts import mentions
from tony.model.diagnosis import EvidenceLine
from tony.model.job_spec import Role
from tony.model.setting_choices import RoleKind

LINE = EvidenceLine(stream="err", number=12, text="ValueError: x", ago=0.0, rule="python-exception")
HIDDEN = replace(OK, evidence=(LINE,))


def test_the_task_and_the_line_are_named() -> None:
    simulation = started(workers(2))
    simulation.exit(task("worker:0"), OK)
    simulation.exit(task("worker:1"), HIDDEN)
    simulation.settle()
    (warning,) = seen(simulation).warnings
    assert mentions(warning, "worker:1", "code 0", "ValueError: x", "worker-1.s1.t1.err:12", "pipe")
    assert seen(simulation).state.value == "succeeded"


def test_many_tasks_are_counted() -> None:
    simulation = started(workers(10))
    for index in range(10):
        simulation.exit(task(f"worker:{index}"), HIDDEN)
    simulation.settle()
    assert len(seen(simulation).warnings) == 4
    assert mentions(seen(simulation).warnings[-1], "7 more")


def test_other_roles_give_no_warning() -> None:
    simulation = started(roles(worker=Role(), board=Role(kind=RoleKind.SIDECAR)))
    simulation.exit(task("board:0"), HIDDEN)
    simulation.exit(task("worker:0"), OK)
    simulation.settle()
    assert seen(simulation).warnings == ()
