"""The scheduler `yarn`: Hadoop YARN."""

from __future__ import annotations

from tony.errors import InfraError
from tony.model.layout import Home
from tony.schedulers.interface import ContainerAllocator, PreparedJob, Scheduler, Submitter


class YarnScheduler(Scheduler):
    """Creates the client's half. `tony.am.yarn_main` creates the other from the container's launch payload."""

    name = "yarn"

    def submitter(self, home: Home) -> Submitter:
        from tony.schedulers.yarn.client.submitter import YarnSubmitter

        return YarnSubmitter(home)

    def source(self, job: PreparedJob) -> ContainerAllocator:
        raise InfraError("YARN containers are only available to an AM inside the cluster: tony.am.yarn_main")
