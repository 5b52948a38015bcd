"""What only clusters have is said to mean nothing here, once for each role and key."""

from pathlib import Path

from tony.model.job_spec import JobSpec, Resources, Role
from tony.model.layout import Home
from tony.schedulers import registry
from tony.schedulers.local.unsupported_settings import unsupported_settings


def test_nothing_of_the_kind() -> None:
    """Most jobs hear nothing; a single task is always alone on its host."""
    assert unsupported_settings(JobSpec(command="true")) == []
    assert (
        unsupported_settings(JobSpec(roles={"worker": Role(instances=1, spread=True, resources=Resources(gpus=1))}))
        == []
    )


def test_everything() -> None:
    """A sentence each, with the reason; what can be had otherwise is named."""
    worker = Role(
        instances=2,
        resources=Resources(others={"yarn.io/gpu": 1, "yarn.io/fpga": 1}),
        node_label="gpu",
        spread=True,
        placement="notin,node,ps",
        placement_tags=("big",),
        mounts="/data:/data:ro",
    )
    nothing = "has no effect on the local scheduler:"
    counts = f"{nothing} it manages memory and GPUs only"
    assert unsupported_settings(JobSpec(roles={"worker": worker, "ps": Role(node_label="gpu")})) == [
        f"warning: roles.worker.resources.yarn.io/fpga {counts}",
        f"warning: roles.worker.resources.yarn.io/gpu {counts}; request GPUs with `gpus`",
        f"warning: roles.worker.node_label {nothing} it has one machine, without node labels",
        f"warning: roles.worker.spread {nothing} all tasks run on this machine",
        f"warning: roles.worker.placement {nothing} all tasks run on this machine",
        f"warning: roles.worker.placement_tags {nothing} it has no placement constraints",
        f"warning: roles.worker.mounts {nothing} tasks run directly on this machine, without a container image",
        f"warning: roles.ps.node_label {nothing} it has one machine, without node labels",
    ]


def test_told_by_the_submitter(tmp_path: Path) -> None:
    """Before anything is staged."""
    spec = JobSpec(roles={"worker": Role(node_label="gpu")}, scheduler_settings={"ledger": str(tmp_path)})
    assert registry.load("local").submitter(Home(tmp_path)).notices(spec) == unsupported_settings(spec)
