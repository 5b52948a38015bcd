"""What an executor is told at its birth."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.core.specs import task
from tony.am.executor_instructions import build_container_setup, build_task_part
from tony.core.actions import Launch
from tony.errors import PlatformError
from tony.frameworks.no_framework import NoFramework
from tony.frameworks.registry import home_of, load
from tony.model.ids import TaskId
from tony.model.job_spec import GIB, MIB, JobSpec, Resources, Role
from tony.model.setting_choices import DistributedMode, RendezvousKind, ReservedPort, RoleKind
from tony.model.staged_files import Placement, StagedItem, StagedJob, StagedRole
from tony.protocol.launch import TaskPart
from tony.testing.sample_jobs import build_prepared_job

SPEC = JobSpec(
    command="train",
    env={"A": "1", "B": "1"},
    params={"lr": "0.1"},
    port_range=(5000, 5999),
    stop_grace=7.0,
    orphan_grace=3.0,
    distributed_mode=DistributedMode.FCFS,
    roles={
        "chief": Role(),
        "worker": Role(
            instances=2,
            command=("python", "w.py"),
            env={"B": "2"},
            resources=Resources(memory=512 * MIB, vcores=3, gpus=1),
            stop_grace=1.0,
            port_range=(6000, 6099),
            port=ReservedPort.FREE,
            procs_per_task=4,
        ),
        "board": Role(kind=RoleKind.SIDECAR),
    },
)


def part(folder: Path, who: str, spec: JobSpec = SPEC) -> TaskPart:
    """A task's part in session 3 of attempt 2."""
    record = build_prepared_job(folder, spec, job_id="j-1").record
    return build_task_part(
        record,
        load(home_of(spec.framework)),
        2,
        Launch(container="c-9", task=task(who), session=3),
        "unix:/am.sock",
        600.0,
    )


def test_roles_inherit_values_of_the_job(tmp_path: Path) -> None:
    """A role that says nothing itself has the job's values."""
    told = part(tmp_path, "chief:0")
    assert (told.job_id, told.attempt, told.session, told.container) == ("j-1", 2, 3, "c-9")
    assert (told.role, told.index, told.am_address) == ("chief", 0, "unix:/am.sock")
    assert (told.command, told.env) == ("train", {"A": "1", "B": "1"})
    assert (told.port_range, told.stop_grace, told.lease) == ((5000, 5999), 7.0, 3.0)
    assert (told.memory, told.gpus) == (GIB, 0)
    assert told.job_settings == SPEC.program_settings
    assert told.job_settings.params == {"lr": "0.1"}
    assert told.job_settings.distributed_mode is DistributedMode.FCFS


def test_a_role_overrides_the_jobs_values(tmp_path: Path) -> None:
    """Its own command, variables, ports, grace and resources."""
    told = part(tmp_path, "worker:1")
    assert (told.command, told.env) == (("python", "w.py"), {"A": "1", "B": "2"})
    assert (told.port_range, told.role_settings.port, told.stop_grace) == ((6000, 6099), ReservedPort.FREE, 1.0)
    assert (told.memory, told.gpus) == (512 * MIB, 1)


def test_the_job_shape_is_in_every_launch_context(tmp_path: Path) -> None:
    """Ranks are counted from it; sidecars are not among the tasks that count."""
    for who in ("chief:0", "worker:1", "board:0"):
        told = part(tmp_path, who)
        assert list(told.instances.items()) == [("chief", 1), ("worker", 2), ("board", 1)]
        assert told.procs == {"chief": 1, "worker": 4, "board": 1}
        assert (told.chief, told.num_tasks) == ("chief:0", 3)


@pytest.mark.parametrize(("extra", "who"), [({}, "chief:0"), ({"tensorboard": Role()}, "tensorboard:0")])
def test_one_task_gets_a_port_for_tensorboard(tmp_path: Path, extra: dict[str, Role], who: str) -> None:
    """The `tensorboard` role if there is one, else the chief."""
    spec = JobSpec(command="train", roles={**SPEC.roles, **extra})
    wants = [str(each) for each in spec.task_ids if part(tmp_path, str(each), spec).wants_tb_port]
    assert wants == [who]


def test_each_possible_chief_reserves_the_tensorboard_port(tmp_path: Path) -> None:
    """With an elastic role the first task that takes part serves TensorBoard."""
    spec = JobSpec(command="train", roles={"worker": Role(instances=3, min_instances=1), "ps": Role()})
    parts = {str(each): part(tmp_path, str(each), spec) for each in spec.task_ids}
    assert {who: (told.wants_tb_port, told.board) for who, told in parts.items()} == {
        **{f"worker:{index}": (True, "worker:0") for index in range(3)},
        "ps:0": (False, None),
    }


def test_only_one_task_gets_a_rendezvous(tmp_path: Path) -> None:
    """On that task's port only."""
    spec = JobSpec(command="train", framework="horovod", roles={"worker": Role(instances=2)})
    assert [part(tmp_path, who, spec).meeting for who in ("worker:0", "worker:1")] == [
        RendezvousKind.STORE,
        None,
    ]
    assert part(tmp_path, "chief:0").meeting is None


def test_an_adapter_that_breaks_is_named(tmp_path: Path) -> None:
    class Broken(NoFramework):
        def choose_rendezvous(self, spec: JobSpec, task: TaskId) -> RendezvousKind | None:
            raise KeyError("oh")

    record = replace(build_prepared_job(tmp_path, SPEC).record, framework_module="my.own:Broken")
    with pytest.raises(PlatformError, match=r"the framework adapter my\.own:Broken failed: KeyError: 'oh'"):
        build_task_part(record, Broken(), 1, Launch(container="c", task=task("chief:0"), session=1), "unix:/x", 0.0)


def test_container_setup_names_the_slow_part(tmp_path: Path) -> None:
    """An environment takes longer than files, so it is named."""
    record = build_prepared_job(tmp_path, SPEC).record
    assert build_container_setup(record, "worker") == "copying its files"
    item = StagedItem(name="env", digest="0" * 64, size=1, placement=Placement.PYTHON)
    staged = StagedJob(roles={"worker": StagedRole(items=(item,))})
    assert build_container_setup(replace(record, staged=staged), "worker") == "unpacking the Python environment"
    assert build_container_setup(replace(record, staged=staged), "chief") == "copying its files"
