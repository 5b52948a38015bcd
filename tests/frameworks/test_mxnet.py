"""What an MXNet program finds in its environment."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tony.frameworks.mxnet import MxNet
from tony.model.ids import TaskId
from tony.model.job_spec import ClusterSpec, JobSpec, Role
from tony.model.setting_choices import AfterCondition, RoleKind

if TYPE_CHECKING:
    from tests.frameworks.conftest import GangMaker

SHAPE = {"scheduler": Role(), "server": Role(instances=2), "worker": Role(instances=2)}


def job(**roles: Role) -> JobSpec:
    return JobSpec(framework="mxnet", roles={**SHAPE, **roles})


def keys(spec: JobSpec) -> list[str]:
    return [problem.key for problem in MxNet().validate(spec)]


def test_addresses_are_numbers(make_gang: GangMaker) -> None:
    """The scheduler binds what it is told, and ps-lite takes no name there."""
    gang = make_gang(job())
    numbers = {"scheduler-0.example": "10.0.0.1", "server-1.example": "10.0.0.3"}
    view = replace(gang.view(TaskId("server", 1)), ip_of=numbers.__getitem__)
    (found,) = MxNet().environment(gang.shared, view)
    assert (found["DMLC_PS_ROOT_URI"], found["DMLC_NODE_HOST"]) == ("10.0.0.1", "10.0.0.3")


def test_tasks_that_do_not_train_get_no_variables(make_gang: GangMaker) -> None:
    """`import mxnet` in an evaluator or a sidecar shall not join."""
    extra = {"evaluator": Role(), "board": Role(kind=RoleKind.SIDECAR), "prepare": Role(kind=RoleKind.SETUP)}
    gang = make_gang(job(**extra))
    assert [gang.environments()[TaskId(name, 0)] for name in extra] == [[{}]] * 3
    assert gang.environments()[TaskId("worker", 0)][0]["DMLC_NUM_WORKER"] == "2"


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3))
def test_counts_are_of_processes(servers: int, workers: int, per_server: int, per_worker: int) -> None:
    """As many as are counted do come: the scheduler waits for exactly so many."""
    spec = job(
        server=Role(instances=servers, procs_per_task=per_server),
        worker=Role(instances=workers, procs_per_task=per_worker),
    )
    assert keys(spec) == []
    addresses = {name: tuple(f"h:{n}" for n in range(role.instances)) for name, role in spec.roles.items()}
    shared = MxNet().build_shared(spec, ClusterSpec(session=1, version=1, roles=addresses))
    assert shared == {"scheduler": "h:0", "servers": servers * per_server, "workers": workers * per_worker}


@pytest.mark.parametrize("name", ["scheduler", "server", "worker"])
def test_a_role_that_is_missing(name: str) -> None:
    """Each of the three, left out or without tasks."""
    roles = {role: value for role, value in SHAPE.items() if role != name}
    assert keys(JobSpec(framework="mxnet", roles=roles)) == ["roles"]
    assert keys(job(**{name: Role(instances=0)})) == [f"roles.{name}.instances"]


def test_a_job_without_roles() -> None:
    problems = MxNet().validate(JobSpec(framework="mxnet", command="true"))
    assert [problem.message.split(":")[0] for problem in problems] == [
        f'framework = "mxnet" needs a role {name}' for name in ("scheduler", "server", "worker")
    ]


@pytest.mark.parametrize(
    ("roles", "key"),
    [
        ({"scheduler": Role(instances=2)}, "roles.scheduler.instances"),
        ({"scheduler": Role(procs_per_task=2)}, "roles.scheduler.procs_per_task"),
        ({"server": Role(kind=RoleKind.SIDECAR)}, "roles.server.kind"),
        ({"worker": Role(kind=RoleKind.SETUP)}, "roles.worker.kind"),
        ({"server": Role(kind=RoleKind.UNTRACKED)}, None),
        ({"worker": Role(after={"server": AfterCondition.STARTED})}, "roles.worker.after"),
    ],
)
def test_errors_of_a_job(roles: dict[str, Role], key: str | None) -> None:
    assert keys(job(**roles)) == ([] if key is None else [key])
