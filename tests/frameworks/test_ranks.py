"""Which roles start together, and which of them compute."""

from tony.frameworks.ranks import compute_roles, roles_together
from tony.model.job_spec import JobSpec, Role
from tony.model.setting_choices import AfterCondition, RoleKind

AFTER_WORKER = {"worker": AfterCondition.SUCCEEDED}


def names(spec: JobSpec) -> list[list[str]]:
    return [list(group) for group in roles_together(spec)]


def test_same_after_means_together() -> None:
    """Roles without `after` start together; those that wait for the same start together later."""
    roles = {"chief": Role(), "worker": Role(), "export": Role(after=AFTER_WORKER), "report": Role(after=AFTER_WORKER)}
    assert names(JobSpec(roles=roles)) == [["chief", "worker"], ["export", "report"]]


def test_condition_counts() -> None:
    """To wait for a role's start and to wait for its end are two moments."""
    roles = {
        "worker": Role(),
        "viewer": Role(after={"worker": AfterCondition.STARTED}),
        "export": Role(after=AFTER_WORKER),
    }
    assert names(JobSpec(roles=roles)) == [["worker"], ["viewer"], ["export"]]


def test_job_without_roles() -> None:
    """A job without roles is one role, `main`."""
    assert names(JobSpec(command="true")) == [["main"]]


def test_role_without_tasks_is_nowhere() -> None:
    """A role of no instances takes no part."""
    assert names(JobSpec(roles={"worker": Role(), "ps": Role(instances=0)})) == [["worker"]]


def test_bystanders_and_sidecars_do_not_compute() -> None:
    """Evaluator, TensorBoard and sidecars stand beside the computation; untracked tasks take part."""
    roles = {
        "worker": Role(),
        "evaluator": Role(),
        "tensorboard": Role(kind=RoleKind.SIDECAR),
        "shipper": Role(kind=RoleKind.SIDECAR),
        "helper": Role(kind=RoleKind.UNTRACKED),
    }
    assert list(compute_roles(roles)) == ["worker", "helper"]


def test_evaluators_by_themselves_compute() -> None:
    """Evaluators that start alone, after the training, are the computation."""
    roles = {"evaluator": Role(instances=2), "shipper": Role(kind=RoleKind.SIDECAR)}
    assert list(compute_roles(roles)) == ["evaluator"]
