"""What the application master and the executors find in their processes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from tony.model.codec import from_plain
from tony.model.staged_files import StagedItem
from tony.model.state_directory import Home, JobFolder
from tony.model.submission_record import JobRecord
from tony.protocol.launch import JobCredentials
from tony.schedulers.client_interface import PreparedJob
from tony.schedulers.container_interface import AmContainer, JobLaunch
from tony.schedulers.enlisting_container import EnlistingContainer

from .allocator import ProcessAllocator


class ProcessAmContainer(AmContainer):
    def __init__(self) -> None:
        self._folder = JobFolder(Path(os.environ["PROCESSES_JOB"]))

    def take_job(self) -> JobLaunch:
        record = from_plain(JobRecord, json.loads(self._folder.secret_job.read_bytes()))
        return JobLaunch(record=record, credentials=read_credentials(self._folder), folder=self._folder)

    def create_allocator(self, job: PreparedJob) -> ProcessAllocator:
        return ProcessAllocator(job)


class ProcessExecutorContainer(EnlistingContainer):
    host = "127.0.0.1"

    def __init__(self) -> None:
        self._job = JobFolder(Path(os.environ["PROCESSES_JOB"]))
        self.container = os.environ["PROCESSES_CONTAINER"]
        self.credentials = read_credentials(self._job).executors
        self.folder, self.logs = self._job.work / self.container, self._job.logs
        self.shared = self._job.work / "shared"

    def find_am(self) -> str | None:
        try:
            address: str = json.loads(self._job.am.read_bytes())["address"]
        except OSError:
            return None
        return address

    def fetch(self, item: StagedItem) -> Path:
        return Home(self._job.path.parent.parent).cache / "objects" / item.digest

    def variables(self) -> Mapping[str, str]:
        return {"PROCESSES_CONTAINER": self.container}


def read_credentials(folder: JobFolder) -> JobCredentials:
    return from_plain(JobCredentials, json.loads(folder.credentials.read_bytes()))
