"""The AM in a YARN container: its launch payload becomes the job."""

from __future__ import annotations

import os
from dataclasses import replace

from tony.model.layout import Home
from tony.schedulers.client_interface import PreparedJob
from tony.schedulers.container_interface import AmContainer, JobLaunch
from tony.schedulers.yarn.allocation.allocator import YarnAllocator
from tony.schedulers.yarn.container_env import ContainerEnv
from tony.schedulers.yarn.launch_payload import JOB, JobPayload


class YarnAmContainer(AmContainer):
    """The container of an AM attempt.

    Raises:
        PlatformError: this is not a YARN container, or it has no launch payload.
    """

    def __init__(self) -> None:
        payload, self._container = ContainerEnv.from_environ(os.environ).take_payload(JOB, JobPayload)
        self._payload = set_cluster_time(payload, self._container)

    def take_job(self) -> JobLaunch:
        record = self._payload.record
        return JobLaunch(
            record=replace(record, framework_path=self._container.plug_in(record.framework_path)),
            credentials=self._payload.credentials,
            folder=Home(self._container.folder / "tony-home").job(record.job_id),
        )

    def create_allocator(self, job: PreparedJob) -> YarnAllocator:
        return YarnAllocator(job, self._payload, self._container)


def set_cluster_time(payload: JobPayload, container: ContainerEnv) -> JobPayload:
    """Set the submission time to the cluster's: the submitter's clock may be wrong."""
    if container.submitted is None:
        return payload
    return replace(payload, record=replace(payload.record, submitted=container.submitted))
