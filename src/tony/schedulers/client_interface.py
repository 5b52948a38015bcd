"""The interface to a scheduler: what a client needs to submit a job and to learn about it afterwards.

The half in the application master is in `allocator_interface`, what the AM and executors find in containers of other
machines in `container_interface`. Schedulers never import each other. What a scheduler cannot do follows from its
`Capabilities`; it is refused at submit or emulated. *Missing is not finished*: an absent answer means "unknown" and is
requested again; it is never success.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from tony.errors import InfraError, Problem
from tony.model.codec import Json
from tony.model.health_check import HealthCheck
from tony.model.job_spec import JobSpec
from tony.model.log_file_tail import LogFileTail
from tony.model.state_directory import Home, JobFolder
from tony.model.states import JobState
from tony.model.submission_record import JobRecord
from tony.model.web_link import WebLink
from tony.schedulers.capabilities import Capabilities

if TYPE_CHECKING:
    from tony.schedulers.allocator_interface import ContainerAllocator
    from tony.storage.staging.remote_files_interface import RemoteFiles
    from tony.storage.stores.store_interface import FileStore

#: Window in seconds in which AM failures count against `am_attempts`.
ATTEMPTS_WITHIN = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedJob:
    """A staged job, ready to be submitted.

    Attributes:
        home: the submitter's state directory.
        folder: the job directory; job.json, secret/ and staged/ are in place.
        record: content of job.json, with secrets.
        other_schedulers: name -> the job's settings for other schedulers.
        on_notice: receives sentences about what takes long, from any thread.
    """

    home: Home
    folder: JobFolder
    record: JobRecord
    other_schedulers: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    on_notice: Callable[[str], None] = lambda text: None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationStatus:
    """The scheduler's view of a job whose application master runs on another machine.

    Attributes:
        alive: whether the AM is running or about to start; None if unknown.
        address: where it listens, as in `am.json`; empty until then.
        host: where it runs.
        attempt: the AM attempt.
        note: the scheduler's diagnostics: why the job is pending, or why it ended.
        result: outcome that the AM reported to the scheduler, or KILLED if a user killed the application through the
            scheduler; None if there is neither.
        deletion: who ended the job if a signal ended its AM, where the scheduler no longer has a record of it.
        given_up: the scheduler itself has failed the job: the AM's node was lost, or its container failed.
        is_unstartable: no AM can start, or run the job, for the reason in `note`; with `given_up`.
        overdue: the time limit for which the scheduler itself killed it, as a sentence; empty if there was none.
        dialed_by: as `ContainerAllocator.dialed_by`.
        ended: when it ended, in seconds since 1970, as far as the scheduler knows; None before.
    """

    alive: bool | None
    address: str = ""
    host: str = ""
    attempt: int = 0
    note: str = ""
    result: JobState | None = None
    deletion: str = ""
    given_up: bool = False
    is_unstartable: bool = False
    overdue: str = ""
    dialed_by: str = ""
    ended: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListEntry:
    """One job in the scheduler's own list, from every user and client.

    Attributes:
        submitted, ended: seconds since 1970.
        exit_code: exit code that a following client would return, as far as the scheduler knows; None before the end.
        reason: why it failed, in the scheduler's words; empty otherwise.
    """

    job: str
    name: str
    state: JobState
    user: str
    submitted: float
    ended: float | None = None
    exit_code: int | None = None
    reason: str = ""


class LogSink(Protocol):
    """Receives log files that a scheduler found. Names are those of the files in the job's `logs/`."""

    def find_start(self, name: str, older: int, newer: int) -> int | None:
        """Announce a file.

        Args:
            older, newer: sizes in bytes of the rotated `<name>.1` and of `<name>`.

        Returns:
            How many bytes of both together are present already; None if the file is not wanted.
        """

    def put(self, name: str, start: int, offset: int, data: bytes) -> None:
        """Store a piece of a file. Offsets count both files as one.

        Args:
            start: where the piece's file begins: 0, or the length of the older one.
        """

    def put_tail(self, tail: LogFileTail) -> None:
        """Store the end of a file that was not announced; the rest of it may no longer exist."""

    def put_index(self, file: str, data: bytes) -> None:
        """Store the index of times of a file that was put, whole; `file` is its own name, with `.1` if it is older."""


class Submitter(ABC):
    """The scheduler's half in the client."""

    capabilities: Capabilities

    def allocate_job_id(self) -> str | None:
        """Return a new job's id from a scheduler that allocates ids; None: the client makes one. After `check`."""
        return None

    @abstractmethod
    def check(self, spec: JobSpec) -> Sequence[Problem]:
        """Return requests that this scheduler can never satisfy, with the arithmetic, and errors in its settings."""

    def pin_cluster(self, spec: JobSpec) -> JobSpec:
        """Return the job with the settings of the cluster that it is submitted to. After `check`.

        They are recorded, so that later commands do not look for the job in the cluster that is the user's by then.
        """
        return spec

    def notices(self, spec: JobSpec) -> Sequence[str]:
        """Return hints for the submitter that are not errors; one or two sentences each."""
        return ()

    def check_health(self) -> Iterable[HealthCheck]:
        """Yield checks of what jobs of this scheduler use, with the settings of no job. May take seconds."""
        return ()

    def remote_files(self, spec: JobSpec, others: Mapping[str, Mapping[str, object]]) -> RemoteFiles:
        """Return the cluster's file systems, for URIs in the job. After `check`.

        Args:
            others: name -> the job's settings for other schedulers.

        Raises:
            ValueError: there are none.
            TonyError: the configuration cannot be used.
        """
        raise ValueError("only paths on this machine can be used.")

    @abstractmethod
    def render(self, job: PreparedJob) -> Json:
        """Return the exact request that `submit` will send, without secrets; pure. For golden tests and `--dry-run`."""

    @abstractmethod
    async def submit(self, job: PreparedJob) -> None:
        """Submit the job. The client may exit afterwards.

        Raises:
            SchedulerError: the scheduler rejected it; nothing is left behind.
        """

    def find_detached_notice(self) -> str:
        """Return what the user should know about the job just submitted if no command follows it; empty for nothing."""
        return ""

    @abstractmethod
    def am_alive(self, folder: JobFolder) -> bool | None:
        """Return whether the job's application master is running; None if unknown."""

    @abstractmethod
    async def sweep(self, folder: JobFolder) -> None:
        """Stop everything that a dead application master left behind: executors, user programs. Idempotent."""

    async def withdraw(self, folder: JobFolder, reason: str) -> None:
        """Kill a job whose application master has not started or does not respond. Idempotent.

        Args:
            reason: the diagnostics that the scheduler shows.

        Raises:
            SchedulerError: the scheduler cannot be reached.
        """
        await self.sweep(folder)

    async def store_kill_request(self, folder: JobFolder) -> None:  # noqa: B027 - nothing to do where the AM uses the same folder
        """Publish the kept state in the job directory where the next AM attempt finds it.

        Raises:
            SchedulerError, HadoopError: it cannot be written.
        """

    async def queue_position(self, job_id: str) -> str:
        """Describe the queue position of a job whose AM is pending; empty if unknown.

        Raises:
            SchedulerError: the scheduler cannot be reached.
        """
        return ""

    async def application_status(self, job_id: str) -> ApplicationStatus | None:
        """Return the scheduler's current view of a job; None where the job directory has everything.

        Raises:
            SchedulerError: it does not know the job, or cannot be reached.
        """
        return None

    async def list_jobs(self) -> Sequence[ListEntry]:
        """Return every job that the scheduler knows; none where the state directory has them all.

        Raises:
            SchedulerError: no such scheduler is configured, or it cannot be reached.
        """
        return ()

    async def fetch(self, folder: JobFolder) -> None:  # noqa: B027 - nothing to do where the AM uses the same folder
        """Update the local job directory with what the application master wrote on another machine. Repeatable.

        Raises:
            SchedulerError: it cannot be fetched now.
        """

    async def renew_tokens(self, folder: JobFolder, on_trouble: Callable[[str], None]) -> None:  # noqa: B027 - see below
        """Renew what only a client can renew, until cancelled; called while a job is followed.

        Return at once where nothing is to be renewed.

        Args:
            on_trouble: called with what the user should know.

        Raises:
            TonyError: the scheduler cannot be reached.
        """

    async def dial(self, folder: JobFolder, address: str) -> socket.socket:
        """Return a connected, non-blocking socket that leads to the address of a job's AM.

        Only for schedulers that clients need for that (`ContainerAllocator.dialed_by`).

        Raises:
            OSError: the AM cannot be reached.
        """
        raise NotImplementedError

    def find_logs_command(self, job_id: str) -> str:
        """Return the scheduler's own command that shows a job's logs; empty if it has none."""
        return ""

    async def page(self, job_id: str) -> str:
        """Return the URL of the scheduler's page of a job; empty if it has none.

        Raises:
            SchedulerError: the scheduler cannot be reached.
        """
        return ""

    async def links(self, job_id: str, *, ended: bool) -> Sequence[WebLink]:
        """Return links to the scheduler's pages of a job. Sends no request; a page may be down.

        Args:
            ended: the job has ended.

        Raises:
            TonyError: their addresses are unknown.
        """
        return ()

    async def container_links(
        self, job_id: str, containers: Mapping[str, str], *, user: str, ended: bool
    ) -> Mapping[str, Sequence[WebLink]]:
        """Return links to the scheduler's pages with the containers' logs, for those that have any.

        Args:
            containers: id -> host.
            user: the job's owner as the scheduler knows them; empty: the current user.
            ended: the job has ended.

        Raises:
            TonyError: their addresses are unknown.
        """
        return {}

    async def describe_foreign(self, job_id: str) -> str:
        """Describe the status of a known job that has no history to `fetch`, and why; empty if the job is unknown.

        Raises:
            SchedulerError: the scheduler cannot be reached.
        """
        return ""

    async def kill_foreign(self, job_id: str) -> bool:
        """Kill a running job of `describe_foreign`, if it is certainly a job of tony and not of another tool.

        Raises:
            SchedulerError: the scheduler cannot be reached.
        """
        return False

    async def fetch_logs(  # noqa: B027 - see `fetch`
        self, folder: JobFolder, containers: Mapping[str, str], sink: LogSink, *, owner: str = ""
    ) -> None:
        """Fetch the logs of ended containers, whose executors can no longer be asked.

        Args:
            containers: id -> host of containers that have ended.
            owner: required owner of the job, as the scheduler knows them. Empty: the history is our own and trusted.

        Raises:
            SchedulerError: there are no logs, or they cannot be fetched; says why and what to do.
        """


class Scheduler(ABC):
    """One cluster manager; creates both halves."""

    #: The value of `scheduler.name` in a job file.
    name: str = ""

    @abstractmethod
    def create_submitter(self, home: Home) -> Submitter:
        """Return the client's half."""

    def open_histories(self, address: str, home: Home) -> FileStore | None:
        """Return the histories of all jobs in a cluster; None if it has none that others than clients can read.

        Args:
            address: its scheme is the scheduler's name.
            home: the state directory of the reader.

        Raises:
            UserError: there is no such cluster.
        """
        return None

    def create_allocator(self, job: PreparedJob) -> ContainerAllocator:
        """Return the half of an application master on the client's machine.

        In a container on another machine its `AmContainer` creates it.

        Raises:
            InfraError: this scheduler has none.
        """
        raise InfraError(f"the application master of a job on {self.name} does not run on the client's machine")
