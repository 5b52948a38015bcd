"""The embedded scheduler: processes on this machine."""

from __future__ import annotations

from tony.model.state_directory import Home
from tony.schedulers.allocator_interface import ContainerAllocator
from tony.schedulers.client_interface import PreparedJob, Scheduler, Submitter


class LocalScheduler(Scheduler):
    """Creates both halves. Each is imported on demand: processes that need one never need the other."""

    name = "local"

    def create_submitter(self, home: Home) -> Submitter:
        from tony.schedulers.local.submitter import LocalSubmitter  # late: a process needs only one half

        return LocalSubmitter(home)

    def create_allocator(self, job: PreparedJob) -> ContainerAllocator:
        from tony.schedulers.local.allocator import LocalAllocator  # late: a process needs only one half

        return LocalAllocator(job, adopt_orphans=True)
