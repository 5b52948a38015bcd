"""A setting of a role that its scheduler cannot follow is named, once for each role and key."""

from tony.model.job_spec import JobSpec, Resources, Role
from tony.schedulers.capabilities import RoleSetting
from tony.schedulers.local.capabilities import CAPABILITIES as LOCAL
from tony.schedulers.unsupported_settings import find_unsupported_settings
from tony.schedulers.yarn.capabilities import CAPABILITIES as YARN

WORKER = Role(
    instances=2, resources=Resources(others={"yarn.io/gpu": 1, "yarn.io/fpga": 1}), node_label="gpu", spread=True
)


def test_a_job_without_such_settings() -> None:
    """Most jobs hear nothing; a single task is always alone on its host."""
    assert find_unsupported_settings(JobSpec(command="true"), LOCAL) == []
    alone = JobSpec(roles={"worker": Role(instances=1, spread=True, resources=Resources(gpus=1))})
    assert find_unsupported_settings(alone, LOCAL) == []


def test_every_setting_that_has_no_effect() -> None:
    """A sentence each; what can be had otherwise is named."""
    nothing = "has no effect on the local scheduler"
    spec = JobSpec(roles={"worker": WORKER, "ps": Role(node_label="gpu")})
    assert find_unsupported_settings(spec, LOCAL) == [
        f"roles.worker.resources.yarn.io/fpga {nothing}",
        f"roles.worker.resources.yarn.io/gpu {nothing}; request GPUs with `gpus`",
        f"roles.worker.node_label {nothing}",
        f"roles.worker.spread {nothing}",
        f"roles.ps.node_label {nothing}",
    ]


def test_a_scheduler_that_follows_them() -> None:
    """YARN follows all; another one may follow some."""
    assert find_unsupported_settings(JobSpec(roles={"worker": WORKER}), YARN) == []
    assert RoleSetting.IMAGE in YARN.honours
