"""What a TensorFlow program finds in its environment, and how much of it fits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tony.errors import UserError
from tony.frameworks.adapter_checks import MAX_STRING, string_size
from tony.frameworks.tensorflow import ASSUMED_HOST, TensorFlow
from tony.model.ids import TaskId
from tony.model.job_spec import JobSpec, Role
from tony.model.setting_choices import AfterCondition, DistributedMode, RoleKind

if TYPE_CHECKING:
    from tests.frameworks.conftest import GangMaker

ALL_KINDS = {
    "worker": Role(instances=2),
    "ps": Role(kind=RoleKind.UNTRACKED),
    "evaluator": Role(),
    "tensorboard": Role(kind=RoleKind.SIDECAR),
    "shipper": Role(kind=RoleKind.SIDECAR),
}


def spec_of(roles: dict[str, Role], mode: DistributedMode = DistributedMode.GANG) -> JobSpec:
    return JobSpec(framework="tensorflow", roles=roles, distributed_mode=mode)


@pytest.mark.parametrize(
    ("task", "seen"),
    [
        ("worker:1", ["worker", "ps"]),
        ("ps:0", ["worker", "ps"]),
        ("evaluator:0", ["worker", "ps", "evaluator"]),
        ("tensorboard:0", ["worker", "ps"]),
        ("shipper:0", ["worker", "ps"]),
    ],
)
def test_evaluators_and_sidecars_in_the_cluster(make_gang: GangMaker, task: str, seen: list[str]) -> None:
    """Only evaluators see evaluators; TensorBoard and sidecars are in CLUSTER_SPEC alone."""
    (variables,) = make_gang(spec_of(ALL_KINDS)).environments()[TaskId.parse(task)]
    assert list(json.loads(variables["TF_CONFIG"])["cluster"]) == seen
    assert list(json.loads(variables["CLUSTER_SPEC"])) == list(ALL_KINDS)


def test_an_evaluator_as_a_sidecar_still_sees_itself(make_gang: GangMaker) -> None:
    """Its kind is about the job's result, not about TensorFlow."""
    roles = {"worker": Role(), "evaluator": Role(kind=RoleKind.SIDECAR)}
    found = make_gang(spec_of(roles)).environments()
    configs = {task.role: json.loads(processes[0]["TF_CONFIG"]) for task, processes in found.items()}
    assert list(configs["evaluator"]["cluster"]) == ["worker", "evaluator"]
    assert list(configs["worker"]["cluster"]) == ["worker"]


def test_tensorboard_is_left_out_of_the_cluster(make_gang: GangMaker) -> None:
    """TensorFlow would wait for it."""
    found = make_gang(spec_of({"worker": Role(), "tensorboard": Role()})).environments()
    assert list(json.loads(found[TaskId("worker", 0)][0]["TF_CONFIG"])["cluster"]) == ["worker"]


def test_fcfs_has_no_cluster(make_gang: GangMaker) -> None:
    """The others' addresses are unknown when the first task starts."""
    gang = make_gang(spec_of(ALL_KINDS, DistributedMode.FCFS))
    assert all(processes == [{}] for processes in gang.environments().values())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.dictionaries(
        st.sampled_from(["chief", "worker", "ps", "evaluator", "tensorboard", "shipper"]),
        st.builds(Role, instances=st.integers(1, 5), kind=st.sampled_from(RoleKind)),
        min_size=1,
    )
)
def test_every_task_finds_itself(make_gang: GangMaker, roles: dict[str, Role]) -> None:
    """TF_CONFIG parses, and cluster[type][index] is the task's own address, unless its role is left out."""
    gang = make_gang(spec_of(roles))
    for task, (variables,) in gang.environments().items():
        config = json.loads(variables["TF_CONFIG"])
        assert config["task"] == {"type": task.role, "index": task.index}
        own = gang.cluster.roles[task.role][task.index]
        assert json.loads(variables["CLUSTER_SPEC"])[task.role][task.index] == own
        hidden = task.role == "tensorboard" or (task.role != "evaluator" and roles[task.role].kind is RoleKind.SIDECAR)
        if hidden:
            assert task.role not in config["cluster"]
        else:
            assert config["cluster"][task.role][task.index] == own


def test_several_processes_are_refused() -> None:
    """A task has one address, and TensorFlow one process behind each."""
    (problem,) = TensorFlow().validate(spec_of({"chief": Role(), "worker": Role(procs_per_task=2)}))
    assert (problem.key, problem.value) == ("roles.worker.procs_per_task", "2")


class TestSize:
    def most_that_fit(self, role: str) -> int:
        """The number that the refusal of 10,000 tasks names."""
        (problem,) = TensorFlow().validate(spec_of({role: Role(instances=10_000)}))
        return int(problem.message.split(": ")[1].split(" tasks would fit")[0].replace(",", ""))

    def test_refusal_shows_the_arithmetic(self) -> None:
        """Bytes, tasks, bytes per task, the limit, and how many would fit."""
        roles = {"worker": Role(instances=9_000), "ps": Role(instances=1_000)}
        (problem,) = TensorFlow().validate(spec_of(roles))
        assert (problem.key, problem.value) == ("roles.worker.instances", "9000")
        assert problem.message.startswith(
            "TF_CONFIG takes 410,080 bytes for 10,000 tasks (41 each plus 80), but Linux allows 131,072 per "
            "variable: 3,194 tasks would fit. Host names are assumed to have 32 characters."
        )

    @pytest.mark.parametrize("role", ["worker", "evaluator", "w"])
    def test_named_number_is_exact(self, make_gang: GangMaker, role: str) -> None:
        """So many are accepted and fit to the byte; with one more the job is refused, and would not have fitted."""
        fit = self.most_that_fit(role)
        most, one_more = (spec_of({role: Role(instances=n)}) for n in (fit, fit + 1))
        assert not TensorFlow().validate(most)
        assert TensorFlow().validate(one_more)
        last = TaskId(role, fit - 1)
        host = "h" * ASSUMED_HOST
        fitting = make_gang(most, {role: (f"{host}:65535",) * fit})
        (variables,) = TensorFlow().environment(fitting.shared, fitting.view(last))
        largest = max(string_size(*item) for item in variables.items())
        assert MAX_STRING - 41 < largest <= MAX_STRING

    def test_refused_where_it_is_measured(self, make_gang: GangMaker) -> None:
        """Longer names than assumed are found when they are known, before the program is started."""
        spec = spec_of({"worker": Role(instances=3_000)})
        assert not TensorFlow().validate(spec)
        gang = make_gang(spec, {"worker": tuple(f"{'h' * 60}:{20000 + i}" for i in range(3_000))})
        with pytest.raises(
            UserError, match=r"worker:7 cannot be started: TF_CONFIG takes 207,070 bytes for 3,000 tasks"
        ):
            TensorFlow().environment(gang.shared, gang.view(TaskId("worker", 7)))

    @pytest.mark.parametrize(("spare", "accepted"), [(0, True), (-1, False)])
    def test_last_byte_counts(self, make_gang: GangMaker, spare: int, accepted: bool) -> None:
        """A variable of exactly the limit is passed on; one byte more is not."""
        around = string_size("TF_CONFIG", '{"cluster":{"worker":[""]},"task":{"type":"worker","index":0}}')
        gang = make_gang(spec_of({"worker": Role()}), {"worker": ("h" * (MAX_STRING - around - spare),)})
        if accepted:
            assert string_size("TF_CONFIG", gang.environments()[TaskId("worker", 0)][0]["TF_CONFIG"]) == MAX_STRING
        else:
            with pytest.raises(UserError, match="131,073 bytes"):
                gang.environments()

    def test_evaluators_count_where_they_are_seen(self) -> None:
        """Workers do not see them, but CLUSTER_SPEC has them all."""
        (problem,) = TensorFlow().validate(spec_of({"worker": Role(), "evaluator": Role(instances=3_200)}))
        assert problem.key == "roles.evaluator.instances"
        (problem,) = TensorFlow().validate(
            spec_of({"worker": Role(instances=1_000), "shipper": Role(instances=3_000, kind=RoleKind.SIDECAR)})
        )
        assert problem.message.startswith("CLUSTER_SPEC takes")

    def test_roles_that_never_meet_are_not_added_up(self) -> None:
        """One role starts when the other has ended: no list holds both."""
        after = {"worker": AfterCondition.SUCCEEDED}
        roles = {"worker": Role(instances=2_000), "report": Role(instances=2_000, after=after)}
        assert not TensorFlow().validate(spec_of(roles))

    def test_fcfs_has_no_limit(self) -> None:
        assert not TensorFlow().validate(spec_of({"worker": Role(instances=10_000)}, DistributedMode.FCFS))
