"""What programs of a job in XML find in their environment: LinkedIn TonY's contract, from settings to variables."""

from __future__ import annotations

import json
from pathlib import Path

from tests.config.legacy.jobs import spec
from tests.frameworks.conftest import Gang
from tony.model.ids import TaskId
from tony.model.job_spec import ClusterSpec

TYPES = {f"tony.{name}.instances": "1" for name in ("worker", "ps", "evaluator")}


def gang(folder: Path, settings: dict[str, str]) -> Gang:
    """The job's tasks, all registered, task n at port n."""
    job = spec(folder, settings)
    ports = iter(range(1, 100))
    roles = {
        name: tuple(f"h:{next(ports)}" for _ in range(role.instances)) for name, role in job.effective_roles.items()
    }
    return Gang(job, ClusterSpec(session=1, version=1, roles=roles))


def test_tf_config_has_exactly_the_members_of_linkedin_tony(tmp_path: Path) -> None:
    """The evaluator is visible only to itself, TensorBoard to no task; CLUSTER_SPEC has them all."""
    settings = {**TYPES, "tony.application.tensorboard-log-dir": "/logs"}
    found = gang(tmp_path, settings).environments()
    seen = {"worker": ["h:1"], "ps": ["h:2"]}
    for task, cluster in (("worker", seen), ("ps", seen), ("evaluator", {**seen, "evaluator": ["h:3"]})):
        (variables,) = found[TaskId(task, 0)]
        assert json.loads(variables["TF_CONFIG"]) == {"cluster": cluster, "task": {"type": task, "index": 0}}
        assert list(json.loads(variables["CLUSTER_SPEC"])) == ["worker", "ps", "evaluator", "tensorboard"]


def test_pytorch_has_the_originals_three_variables(tmp_path: Path) -> None:
    """And numbers without collisions where there are several types."""
    settings = {"tony.worker.instances": "2", "tony.ps.instances": "0", "tony.application.framework": "pytorch"}
    found = gang(tmp_path, settings).environments()
    for index in (0, 1):
        (variables,) = found[TaskId("worker", index)]
        expected = {"INIT_METHOD": "tcp://h:1", "RANK": str(index), "WORLD": "2"}
        assert {name: variables[name] for name in expected} == expected


def test_each_task_as_soon_as_it_has_registered(tmp_path: Path) -> None:
    """FCFS: neither TF_CONFIG nor CLUSTER_SPEC."""
    found = gang(tmp_path, {**TYPES, "tony.application.distributed-mode": "FCFS"}).environments()
    assert found[TaskId("worker", 0)] == [{}]


def test_untracked_types_are_not_counted(tmp_path: Path) -> None:
    """TASK_NUM is the number of tracked tasks."""
    assert gang(tmp_path, {**TYPES, "tony.worker.instances": "3"}).view(TaskId("worker", 0)).num_tasks == 4
