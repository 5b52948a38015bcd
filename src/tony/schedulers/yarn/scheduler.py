"""Hadoop YARN."""

from __future__ import annotations

from tony.model.layout import Home
from tony.schedulers.base import ContainerSource, PreparedJob, Scheduler, Submitter


class YarnScheduler(Scheduler):
    """Makes both halves. Each is imported when it is asked for: the programs that need one never need the other."""

    name = "yarn"

    def submitter(self, home: Home) -> Submitter:
        from tony.schedulers.yarn.submitter import YarnSubmitter

        return YarnSubmitter(home)

    def source(self, job: PreparedJob) -> ContainerSource:
        from tony.schedulers.yarn.source import YarnSource

        return YarnSource(job)
