"""Hadoop YARN."""

from __future__ import annotations

from tony.errors import InfraError
from tony.model.layout import Home
from tony.schedulers.interface import ContainerAllocator, PreparedJob, Scheduler, Submitter


class YarnScheduler(Scheduler):
    """Makes the client's half. The other one is made by `tony.am.yarn_main`, which has read the container's papers."""

    name = "yarn"

    def submitter(self, home: Home) -> Submitter:
        from tony.schedulers.yarn.submitter import YarnSubmitter

        return YarnSubmitter(home)

    def source(self, job: PreparedJob) -> ContainerAllocator:
        raise InfraError("containers of YARN are had by a master inside the cluster only: tony.am.yarn_main")
