"""The pods of the AM and of executors, seen from within: names, folders, credentials and launch payload."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tony.address import format_host
from tony.errors import PlatformError, StorageError
from tony.model.staged_files import StagedItem
from tony.model.state_directory import Home
from tony.protocol.launch import AmCredentials, TaskLaunch
from tony.schedulers.container_interface import AmContainer, JobLaunch
from tony.schedulers.enlisting_container import EnlistingContainer
from tony.schedulers.kubernetes.launch_payload import (
    AM_ADDRESS,
    CREDENTIALS_KEY,
    JOB_KEY,
    NODE_NAME,
    OBJECTS,
    POD_IP,
    POD_NAME,
    SECRET,
    WORK,
    AmPayload,
    decode_payload,
)

if TYPE_CHECKING:
    from tony.schedulers.client_interface import PreparedJob
    from tony.schedulers.kubernetes.allocator import KubernetesAllocator

T = TypeVar("T")


class KubernetesAmContainer(AmContainer):
    """The pod of an AM attempt.

    Raises:
        PlatformError: this is no such pod.
    """

    def __init__(self) -> None:
        self._payload = _read_secret(JOB_KEY, AmPayload)
        self._host = _get_variable(POD_IP)

    def take_job(self) -> JobLaunch:
        record = self._payload.record
        return JobLaunch(
            record=record, credentials=self._payload.credentials, folder=Home(WORK / "tony-home").job(record.job_id)
        )

    def create_allocator(self, job: PreparedJob) -> KubernetesAllocator:
        from tony.schedulers.kubernetes.allocator import KubernetesAllocator  # late: executors do not need it

        return KubernetesAllocator(job, self._payload, self._host)


class KubernetesExecutorContainer(EnlistingContainer):
    """The pod of a task.

    Raises:
        PlatformError: this is no such pod.
    """

    def __init__(self) -> None:
        self.container = _get_variable(POD_NAME)
        self.host = _get_variable(POD_IP)
        self.folder, self.logs, self.shared = WORK, WORK / "logs", WORK / "shared"
        self.credentials = _read_secret(CREDENTIALS_KEY, AmCredentials)
        for path in (self.logs, self.shared):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def find_am(self) -> str | None:
        return os.environ.get(AM_ADDRESS)

    def take_task(self) -> TaskLaunch:
        launch = super().take_task()
        return replace(launch, task=replace(launch.task, framework_path=None))

    def fetch(self, item: StagedItem) -> Path:
        pieces = sorted(OBJECTS.glob(f"{item.digest}.*"), key=lambda path: int(path.suffix[1:]))
        if not pieces:
            raise StorageError(f"the pod has no volume with {item.name} ({item.digest})")
        whole = self.shared / item.digest
        with whole.open("wb") as file:
            for piece in pieces:
                file.write(piece.read_bytes())
        return whole

    def variables(self) -> Mapping[str, str]:
        return {"HOME": str(WORK), NODE_NAME: os.environ.get(NODE_NAME, "")}


def _read_secret(key: str, kind: type[T]) -> T:
    path = SECRET / key
    try:
        return decode_payload(kind, path.read_bytes())
    except (OSError, ValueError) as error:
        raise PlatformError(f"{path} has no launch payload of this version of tony: {error}") from error


def _get_variable(name: str) -> str:
    try:
        value = os.environ[name]
    except KeyError:
        raise PlatformError(f"not running in a pod of tony: {name} is not set") from None
    return format_host(value) if name == POD_IP else value
