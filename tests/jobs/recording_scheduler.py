"""A scheduler's client half that records its calls; behind it is a fake AM, or none."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from tony.errors import Problem
from tony.model.codec import Json
from tony.model.job_spec import JobSpec
from tony.model.state_directory import Home, JobFolder
from tony.schedulers.allocator_interface import ContainerAllocator
from tony.schedulers.capabilities import Capabilities
from tony.schedulers.client_interface import PreparedJob, Scheduler, Submitter
from tony.schedulers.local.capabilities import CAPABILITIES


class Desk(Submitter):
    """Takes jobs.

    Attributes:
        jobs: those that were passed.
        seen: what lay in the last one's folder then.
        problems: what `check` finds.
        error: what `submit` raises.
        taken: called with each job.
    """

    capabilities: Capabilities = CAPABILITIES

    def __init__(self) -> None:
        self.jobs: list[PreparedJob] = []
        self.seen: list[str] = []
        self.problems: Sequence[Problem] = ()
        self.error: Exception | None = None
        self.taken: Callable[[PreparedJob], None] = lambda job: None

    def check(self, spec: JobSpec) -> Sequence[Problem]:
        return self.problems

    def notices(self, spec: JobSpec) -> Sequence[str]:
        return ["a word before"]

    def render(self, job: PreparedJob) -> Json:
        return {"name": job.record.spec.name, "env": dict(job.record.spec.env)}

    async def submit(self, job: PreparedJob) -> None:
        self.jobs.append(job)
        self.seen = sorted(os.listdir(job.folder.path))
        if self.error:
            raise self.error
        self.taken(job)

    def am_alive(self, folder: JobFolder) -> bool | None:
        return False

    async def sweep(self, folder: JobFolder) -> None:
        return


class Office(Scheduler):
    """A scheduler with one desk."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def create_submitter(self, home: Home) -> Submitter:
        return self.desk

    def create_allocator(self, job: PreparedJob) -> ContainerAllocator:
        raise AssertionError("the client has no use for containers")
