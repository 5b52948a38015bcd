"""Which tasks can start again alone, as their framework's adapter says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.jobs import list_errors
from tony.frameworks.framework_interface import Framework
from tony.frameworks.registry import home_of, load
from tony.model.job_spec import JobSpec, Role
from tony.model.setting_choices import DistributedMode, RoleKind

#: framework, roles that can, roles that cannot; of a job with all of them.
TABLE = [
    ("none", "chief worker ps evaluator board prep", ""),
    ("tensorflow", "worker evaluator board prep", "chief ps"),
    ("pytorch", "evaluator board prep", "chief worker ps"),
    ("jax", "evaluator board prep", "chief worker ps"),
    ("horovod", "evaluator board prep", "chief worker ps"),
    ("mxnet", "evaluator board", "scheduler server worker"),
]


def job(*names: str, **more: object) -> JobSpec:
    """A job with these roles, two tasks each."""
    kinds = {"board": RoleKind.SIDECAR, "prep": RoleKind.SETUP}
    roles = {name: Role(instances=2, kind=kinds.get(name, RoleKind.TRACKED)) for name in names}
    return JobSpec(command="x", roles=roles, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "can", "cannot"), TABLE)
def test_which_roles_may_restart_alone(name: str, can: str, cannot: str) -> None:
    """Tasks that compute together may not; the others may."""
    adapter = load(home_of(name))
    spec = job(*can.split(), *cannot.split(), framework=name)
    found = {role: adapter.check_lone_restart(spec, role) for role in spec.roles}
    assert [role for role, why in found.items() if why is None] == can.split()
    assert all(why and not why.endswith(".") for role, why in found.items() if role in cannot.split())


def test_the_only_task_of_a_computation_can() -> None:
    alone = JobSpec(command="x", roles={"worker": Role(), "evaluator": Role()})
    for name in ("pytorch", "jax", "horovod", "tensorflow"):
        assert load(home_of(name)).check_lone_restart(alone, "worker") is None
    assert load(home_of("standalone")).check_lone_restart(JobSpec(command="x"), "main") is None


def test_tensorflow_without_servers_or_without_a_gang() -> None:
    """Workers without ps wait for each other; with fcfs no task knows the others' addresses."""
    adapter = load(home_of("tensorflow"))
    assert "wait for each other" in str(adapter.check_lone_restart(job("chief", "worker"), "worker"))
    assert adapter.check_lone_restart(job("worker", "ps", distributed_mode=DistributedMode.FCFS), "ps") is None


def test_a_plug_in_without_an_answer_may_not_restart_alone() -> None:
    """It was written before the method existed."""
    assert Framework.check_lone_restart(load(home_of("none")), job("worker"), "worker")


def test_the_wrong_choice_is_refused_with_the_way_out(tmp_path: Path) -> None:
    """Key, value and place; and what to write instead."""
    text = 'framework = "mxnet"\ncommand = "x"\n[roles.scheduler]\n[roles.server]\n[roles.worker]\nrestart = "task"\n'
    (error,) = list_errors(tmp_path, text)
    assert error.startswith(
        'roles.worker.restart = "task" (job.toml:6): with framework = "mxnet", a task of worker cannot'
    )
    assert error.endswith('Write restart = "session", or leave it out: then the whole gang restarts.')
