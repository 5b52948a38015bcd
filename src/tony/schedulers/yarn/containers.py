"""The containers of the AM and of executors on YARN, seen from within: ids, folders, credentials and launch payload."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tony.errors import PlatformError, StorageError
from tony.hadoop.tokens import TokenCredentials, read_file, write_file
from tony.model.staged_files import StagedItem
from tony.model.state_directory import Home
from tony.protocol.launch import TaskLaunch
from tony.schedulers.container_interface import AmContainer, ExecutorContainer, JobLaunch
from tony.schedulers.yarn.launch_payload import JOB, PLUG_IN, TASK, JobPayload, decode_payload

if TYPE_CHECKING:
    from tony.schedulers.client_interface import PreparedJob
    from tony.schedulers.yarn.allocation.allocator import YarnAllocator

T = TypeVar("T")
#: Variables that a program needs to find Hadoop's file system, if the node sets them.
_HADOOP = (
    "HADOOP_CONF_DIR",
    "HADOOP_TOKEN_FILE_LOCATION",
    "HADOOP_USER_NAME",
    "HADOOP_HOME",
    "HADOOP_COMMON_HOME",
    "HADOOP_HDFS_HOME",
    "JAVA_HOME",
    "CONTAINER_ID",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerEnv:
    """A YARN container, seen from within.

    Attributes:
        host: the node's host name in the cluster.
        folder: its working directory.
        logs: folder whose files YARN shows and aggregates.
        shared: folder of this application on this node, shared by its containers and removed with the application.
        tokens: the credentials file.
        credentials: its content.
        submitted: when the ResourceManager accepted the application, by its clock, seconds since 1970; None in
            containers of tasks, where YARN does not set it.
    """

    container: str
    host: str
    folder: Path
    logs: Path
    shared: Path
    tokens: Path
    credentials: TokenCredentials = field(repr=False)
    submitted: float | None = None

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> ContainerEnv:
        """Read the environment that YARN sets.

        Raises:
            PlatformError: this is not a YARN container, or its credentials cannot be read.
        """
        try:
            tokens = Path(environ["HADOOP_TOKEN_FILE_LOCATION"])
            return cls(
                container=environ["CONTAINER_ID"],
                host=environ["NM_HOST"],
                folder=Path.cwd(),
                logs=Path(environ["LOG_DIRS"].split(",")[0]),
                shared=Path(environ["LOCAL_DIRS"].split(",")[0]) / "tony",
                tokens=tokens,
                credentials=read_file(tokens),
                submitted=_seconds(environ.get("APP_SUBMIT_TIME_ENV", "")),
            )
        except KeyError as error:
            raise PlatformError(f"not running in a YARN container: {error.args[0]} is not set") from None

    @property
    def attempt(self) -> int:
        """Number of the AM attempt that this process is, or belongs to."""
        from tony.hadoop import ids  # late: executors need neither it nor the records that it loads

        attempt = ids.parse_container_id(self.container).attempt
        return attempt.number or 1 if attempt else 1

    def plug_in(self, framework_path: str | None) -> str | None:
        """Return where the framework's plug-in is imported from; None for a built-in framework."""
        return None if framework_path is None else str(self.folder / PLUG_IN)

    def take_payload(self, name: str, kind: type[T]) -> tuple[T, ContainerEnv]:
        """Return the payload of that name, and remove it from the credentials file, which user programs can read.

        Args:
            kind: JobPayload or TaskLaunch.

        Raises:
            PlatformError: there is none.
        """
        try:
            payload = decode_payload(kind, self.credentials.secrets[name])
        except (KeyError, ValueError) as error:
            text = f"{self.tokens} has no launch payload {name!r} of this version of tony: {error}"
            raise PlatformError(text) from error
        secrets = {alias: secret for alias, secret in self.credentials.secrets.items() if alias != name}
        left = replace(self.credentials, secrets=secrets)
        write_file(self.tokens, left)
        return payload, replace(self, credentials=left)


def _seconds(milliseconds: str) -> float | None:
    return int(milliseconds) / 1000 if milliseconds.isascii() and milliseconds.isdecimal() else None


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
        from tony.schedulers.yarn.allocation.allocator import YarnAllocator  # late: executors do not need it

        return YarnAllocator(job, self._payload, self._container)


def set_cluster_time(payload: JobPayload, container: ContainerEnv) -> JobPayload:
    """Set the submission time to the cluster's: the submitter's clock may be wrong."""
    if container.submitted is None:
        return payload
    return replace(payload, record=replace(payload.record, submitted=container.submitted))


class YarnExecutorContainer(ExecutorContainer):
    """The container of a task.

    Raises:
        PlatformError: this is not a YARN container.
    """

    def __init__(self) -> None:
        self._container = ContainerEnv.from_environ(os.environ)
        self.host, self.folder = self._container.host, self._container.folder
        self.logs, self.shared = self._container.logs, self._container.shared

    def take_task(self) -> TaskLaunch:
        launch, _ = self._container.take_payload(TASK, TaskLaunch)
        plug_in = self._container.plug_in(launch.task.framework_path)
        return replace(launch, task=replace(launch.task, framework_path=plug_in))

    def fetch(self, item: StagedItem) -> Path:
        localized = (self.folder / item.digest).resolve()
        if not localized.is_file():
            raise StorageError(f"YARN has not localized {item.name} ({item.digest}) in {self.folder}")
        return localized

    def variables(self) -> dict[str, str]:
        return hadoop_variables(os.environ)


def hadoop_variables(own: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that Hadoop's clients in the user's program need.

    Without Kerberos HDFS trusts the user name that a client sends, by default that of the process: on many clusters
    that is the NodeManager's user. YARN sets USER to the container's owner.
    """
    found = {name: own[name] for name in _HADOOP if own.get(name)}
    if own.get("USER"):
        found.setdefault("HADOOP_USER_NAME", own["USER"])
    return found
