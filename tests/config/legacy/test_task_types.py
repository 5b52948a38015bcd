"""How types count: kinds, stop-on-failure, groups with their time-outs, stages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.legacy.jobs import list_errors, notes, spec
from tests.facts import mention_each
from tony.model.job_spec import JobSpec
from tony.model.setting_choices import AfterCondition, FailurePolicy, StopOn

UNTRACKED = "tony.application.untracked.jobtypes"
SIDECAR = "tony.application.sidecar.jobtypes"
PREPARE, TRAINING = "tony.application.prepare-stage", "tony.application.training-stage"
AFTER = "tony.application.dependency.{}.timeout.after.{}"


def types(*names: str, **more: str) -> dict[str, str]:
    return {f"tony.{name}.instances": "1" for name in names} | more


def kinds(job: JobSpec) -> dict[str, str]:
    return {name: role.kind.value for name, role in job.roles.items()}


def waits(job: JobSpec) -> dict[str, set[str]]:
    """What each role that waits waits for, always until it has succeeded."""
    assert all(word is AfterCondition.SUCCEEDED for role in job.roles.values() for word in role.after.values())
    return {name: set(role.after) for name, role in job.roles.items() if role.after}


class TestKinds:
    """Tracked, untracked, sidecar."""

    def test_a_worker_with_a_ps_is_waited_for(self, tmp_path: Path) -> None:
        """As LinkedIn TonY does, whatever `tensorflow` gives to a job file that leaves the kind out."""
        assert kinds(spec(tmp_path, types("chief", "worker", "ps"))) == {
            "chief": "tracked",
            "worker": "tracked",
            "ps": "untracked",
        }
        listed = spec(tmp_path, types("chief", "worker", "ps", **{UNTRACKED: "worker"}))
        assert kinds(listed) == {"chief": "tracked", "worker": "untracked", "ps": "tracked"}

    def test_default_kinds(self, tmp_path: Path) -> None:
        """ps is untracked and ends the job with its failure, tensorboard is a sidecar, a worker may fail."""
        job = spec(tmp_path, types("ps", "worker", "tensorboard", "chief"))
        assert kinds(job) == {"ps": "untracked", "worker": "tracked", "tensorboard": "sidecar", "chief": "tracked"}
        assert [name for name, role in job.roles.items() if role.stop_on_failure] == ["ps"]
        assert (job.failure_policy, job.stop_on) == (FailurePolicy.CHIEF_OR_ALL, StopOn.ALL)

    def test_lists_replace_the_usual_ones(self, tmp_path: Path) -> None:
        """So ps is tracked if it is not named."""
        settings = {UNTRACKED: "worker", SIDECAR: "x", "tony.application.stop-on-failure-jobtypes": "chief"}
        job = spec(tmp_path, {**types("ps", "worker", "chief", "x"), **settings})
        assert kinds(job) == {"ps": "tracked", "worker": "untracked", "chief": "tracked", "x": "sidecar"}
        assert [name for name, role in job.roles.items() if role.stop_on_failure] == ["chief"]

    def test_an_empty_list_is_a_list(self, tmp_path: Path) -> None:
        """LinkedIn TonY crashes of it (G10)."""
        job = spec(tmp_path, types("ps", "worker"), "--conf", f"{UNTRACKED}=", "--conf", f"{SIDECAR}=")
        assert kinds(job) == {"ps": "tracked", "worker": "tracked"}

    def test_explicit_kinds_win_over_defaults(self, tmp_path: Path) -> None:
        """A ps listed as a sidecar is one; in both lists it is untracked, so that its failure counts."""
        assert kinds(spec(tmp_path, {**types("ps", "worker"), SIDECAR: "ps"}))["ps"] == "sidecar"
        assert kinds(spec(tmp_path, {**types("ps", "worker"), SIDECAR: "ps", UNTRACKED: "ps"}))["ps"] == "untracked"

    def test_unknown_types_are_reported(self, tmp_path: Path) -> None:
        """Types with 0 tasks are known."""
        found = notes(tmp_path, {**types("ps", "worker"), "tony.x.instances": "0", UNTRACKED: "pss,x,zzz"})
        assert mention_each(found, (f"{UNTRACKED} (tony.xml:6)", "ps", "pss"), (f"{UNTRACKED} (tony.xml:6)", "zzz"))


class TestGroups:
    """Once every member of a group is done, a type may run so much longer."""

    SETTINGS = types("worker", "Evaluator", "chief") | {"tony.application.group.A": "worker, chief"}

    def test_no_group_no_limit(self, tmp_path: Path) -> None:
        key = AFTER.format("worker", "B")
        assert spec(tmp_path, {**types("worker"), key: "5"}).roles["worker"].timeout_after is None
        assert mention_each(notes(tmp_path, {**self.SETTINGS, key: "5"}), (f"{key} (tony.xml:7)", "group B"))

    def test_unknown_types_and_members_are_passed_over(self, tmp_path: Path) -> None:
        """A group of none is none."""
        settings = {
            **types("worker"),
            "tony.application.group.G": "worker,missing",
            "tony.application.group.H": "missing",
            AFTER.format("missing", "G"): "5",
        }
        assert spec(tmp_path, settings).groups == {"G": ("worker",)}
        assert len(notes(tmp_path, settings)) == 4

    def test_one_group_for_each_type(self, tmp_path: Path) -> None:
        first, second = AFTER.format("Evaluator", "A"), AFTER.format("Evaluator", "B")
        found = list_errors(tmp_path, {**self.SETTINGS, "tony.application.group.B": "worker", first: "5", second: "6"})
        said = f"only one group per type: {first} (tony.xml:8) names another one for Evaluator."
        assert found == [f'{second} = "6" (tony.xml:9): {said}']


class TestStages:
    """Types of the second stage wait for the tracked ones of the first."""

    def test_both_stages(self, tmp_path: Path) -> None:
        """E12 of LinkedIn TonY's own tests; what is waited for must have succeeded (G20)."""
        settings = {**types("worker", "ps", "db", "dbloader"), PREPARE: "dbloader,db", TRAINING: "ps, worker"}
        assert waits(spec(tmp_path, settings)) == {"ps": {"dbloader", "db"}, "worker": {"dbloader", "db"}}

    def test_only_tracked_types_are_waited_for(self, tmp_path: Path) -> None:
        """db serves until the end."""
        settings = {
            **types("dbwriter", "db", "worker", "evaluator"),
            PREPARE: "dbwriter, db",
            TRAINING: "worker,evaluator",
            UNTRACKED: "db",
        }
        assert waits(spec(tmp_path, settings)) == {"worker": {"dbwriter"}, "evaluator": {"dbwriter"}}

    def test_a_list_that_is_missing_is_the_rest(self, tmp_path: Path) -> None:
        assert waits(spec(tmp_path, {**types("a", "b", "c"), PREPARE: "a"})) == {"b": {"a"}, "c": {"a"}}
        assert waits(spec(tmp_path, {**types("a", "b", "c"), TRAINING: "c"})) == {"c": {"a", "b"}}

    def test_lists_that_do_not_cover_all_types(self, tmp_path: Path) -> None:
        """Each that is missing, and each that is there twice."""
        found = list_errors(tmp_path, {**types("a", "b", "c", "d"), PREPARE: "a,b", TRAINING: "b,c"})
        assert mention_each(
            found,
            (f'{PREPARE} = "a,b" (tony.xml:7)', "type d", TRAINING),
            (f'{PREPARE} = "a,b" (tony.xml:7)', "type b"),
        )


HOROVOD = {"tony.application.framework": "horovod", "tony.worker.instances": "3"}


@pytest.mark.parametrize("key", ["instances", "memory", "command"])
def test_the_driver_is_not_the_users(tmp_path: Path, key: str) -> None:
    """Whatever is said of it stops the job, unless it is debugged."""
    given = {"instances": "1", "memory": "1g", "command": "x"}[key]
    (told,) = list_errors(tmp_path, {**HOROVOD, f"tony.driver.{key}": given})
    assert "tony.horovod.driver.mode.debug" in told


@pytest.mark.parametrize(
    ("settings", "task"),
    [
        ({"tony.chief.instances": "1"}, "chief:0"),
        ({}, "worker:0"),
        ({"tony.chief.instances": "1", "tony.application.tensorboard-log-dir": "/logs"}, "tensorboard:0"),
    ],
)
def test_which_task_has_a_port_for_tensorboard(tmp_path: Path, settings: dict[str, str], task: str) -> None:
    """The chief alone; with a TensorBoard beside the job that one alone."""
    assert str(spec(tmp_path, {"tony.worker.instances": "2", **settings}).tensorboard_task) == task


def test_a_name_that_cannot_be_a_types(tmp_path: Path) -> None:
    """LinkedIn TonY ignores it; tony refuses it, and the message does not suggest a name that is refused in turn."""
    first, why, second = list_errors(tmp_path, {"tony.1worker.instances": "1", "tony.1worker.memory": "1g"})[:3]
    assert first.endswith("unknown setting; 1worker cannot be a type.")
    assert why.endswith("beginning with a letter.")
    assert second.endswith("unknown setting; 1worker cannot be a type.")
