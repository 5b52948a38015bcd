"""The scheduler `yarn`: Hadoop YARN."""

from __future__ import annotations

from tony.model.state_directory import Home
from tony.schedulers.client_interface import Scheduler, Submitter


class YarnScheduler(Scheduler):
    """Creates the client's half. `YarnAmContainer` creates the other from the launch payload."""

    name = "yarn"

    def create_submitter(self, home: Home) -> Submitter:
        from tony.schedulers.yarn.client.submitter import YarnSubmitter  # late: a process needs only one half

        return YarnSubmitter(home)
