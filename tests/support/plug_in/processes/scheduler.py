"""The client's half: starts the application master as a process that has nothing but tony's archive."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

from tony.errors import Problem
from tony.linux import liveness_lock, process
from tony.model.codec import Json
from tony.model.job_spec import JobSpec
from tony.model.state_directory import Home, JobFolder
from tony.schedulers.client_interface import ApplicationStatus, PreparedJob, Scheduler, Submitter
from tony.schedulers.settings_schema import read_values
from tony.schedulers.shipping.code_archives import store_runtime
from tony.storage.cache.object_cache import Cache

from . import FOLDER
from .capabilities import CAPABILITIES
from .settings import SETTINGS

AM = "tony.am.container_main processes.environments:ProcessAmContainer"


class ProcessScheduler(Scheduler):
    name = "processes"

    def create_submitter(self, home: Home) -> ProcessSubmitter:
        return ProcessSubmitter(home)


class ProcessSubmitter(Submitter):
    capabilities = CAPABILITIES

    def __init__(self, home: Home) -> None:
        self._home = home

    def check(self, spec: JobSpec) -> Sequence[Problem]:
        return read_values("processes", SETTINGS, spec.scheduler_settings)[1]

    def render(self, job: PreparedJob) -> Json:
        return {"am": command(AM)}

    async def submit(self, job: PreparedJob) -> None:
        extract_runtime(self._home, job.folder)
        start(job.folder, command(AM), {}, job.folder.am_log)

    def am_alive(self, folder: JobFolder) -> bool | None:
        return liveness_lock.lock_owner(folder.am_lock) is not None

    async def application_status(self, job_id: str) -> ApplicationStatus:
        folder = self._home.job(job_id)
        there = json.loads(folder.am.read_bytes()) if folder.am.exists() else {}
        alive = self.am_alive(folder) or not folder.events(1).exists()
        address, host = there.get("address", ""), there.get("host", "")
        return ApplicationStatus(alive=alive, address=address, host=host, attempt=there.get("attempt", 0))

    async def sweep(self, folder: JobFolder) -> None:
        process.sweep(f"PROCESSES_JOB={folder.path}\0")


def command(program: str) -> list[str]:
    """Return the command of a program of tony, in the job's folder."""
    return [sys.executable, "-I", "-S", "runtime/start.py", *program.split(), str(FOLDER)]


def extract_runtime(home: Home, folder: JobFolder) -> None:
    cache = Cache(home.cache)
    cache.prepare()
    with zipfile.ZipFile(cache.find_object(store_runtime(cache).digest)) as archive:
        archive.extractall(folder.path / "runtime")


def start(folder: JobFolder, argv: list[str], variables: dict[str, str], output: Path) -> int:
    """Start a process of a job; return its pid."""
    with output.open("ab") as log:
        started = subprocess.Popen(
            argv,
            cwd=folder.path,
            env={"PATH": os.environ.get("PATH", os.defpath), "PROCESSES_JOB": str(folder.path), **variables},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    started.returncode = 0  # its end is seen by a pidfd: no warning that it still runs
    return started.pid
