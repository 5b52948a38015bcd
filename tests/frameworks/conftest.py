"""Jobs with made-up addresses, and every task's environment as its executor would make it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest

from tony.frameworks.base import Framework, TaskView
from tony.frameworks.registry import home_of, load
from tony.model.cluster import ClusterSpec
from tony.model.codec import Json
from tony.model.ids import TaskId
from tony.model.job import JobSpec
from tony.model.states import DistributedMode

Environments = dict[TaskId, list[dict[str, str]]]  # one per process


@dataclass(frozen=True)
class Gang:
    """One job's tasks, all registered."""

    spec: JobSpec
    cluster: ClusterSpec

    @property
    def framework(self) -> Framework:
        return load(home_of(self.spec.framework))

    @property
    def shared(self) -> Json:
        """What the application master would send to all."""
        if self.spec.distributed_mode is DistributedMode.FCFS:
            return None
        return self.framework.shared(self.spec, self.cluster)

    def view(self, task: TaskId) -> TaskView:
        roles = self.spec.effective_roles
        return TaskView(
            job_id="job-1",
            task=task,
            session=self.cluster.session,
            attempt=1,
            try_=1,
            instances={name: role.instances for name, role in roles.items()},
            procs={name: role.procs_per_task for name, role in roles.items()},
            chief=self.spec.chief,
            num_tasks=self.spec.tracked_count,
            mode=self.spec.distributed_mode,
            address=self.cluster.roles[task.role][task.index],
        )

    def environments(self) -> Environments:
        """What the framework alone gives to each process of each task."""
        shared, framework = self.shared, self.framework
        return {
            task: [dict(variables) for variables in framework.environment(shared, self.view(task))]
            for task in self.spec.task_ids
            if task.role in self.cluster.roles
        }


def addresses_of(spec: JobSpec) -> dict[str, tuple[str, ...]]:
    """An address for every task, no two alike."""
    return {
        name: tuple(f"{name}-{index}.example:{20000 + index}" for index in range(role.instances))
        for name, role in spec.effective_roles.items()
    }


GangMaker = Callable[..., Gang]


@pytest.fixture
def make_gang() -> GangMaker:
    """Makes a Gang of a spec; the addresses are made up unless given."""

    def make(spec: JobSpec, roles: Mapping[str, tuple[str, ...]] | None = None) -> Gang:
        cluster = ClusterSpec(session=1, version=1, roles=addresses_of(spec) if roles is None else roles)
        return Gang(spec, cluster)

    return make
