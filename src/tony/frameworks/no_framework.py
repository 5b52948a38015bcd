"""The framework `none`: no addresses of peers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tony.frameworks.framework_interface import Framework, TaskView
from tony.frameworks.ranks import local_rank_variables
from tony.model.codec import Json
from tony.model.job_spec import ClusterSpec, JobSpec


class NoFramework(Framework):
    """Passes no addresses of peers: a start costs the same for 10 tasks and for 10,000."""

    name = "none"

    def check_lone_restart(self, spec: JobSpec, role: str) -> str | None:
        return None

    def check_elastic(self, spec: JobSpec, role: str) -> str | None:
        return None

    def build_shared(self, spec: JobSpec, cluster: ClusterSpec) -> Json:
        return None

    def environment(self, shared: Json, task: TaskView) -> Sequence[Mapping[str, str]]:
        return local_rank_variables(task)
