"""The scheduler interface: a client half that submits, and a half in the application master that gets containers.

Schedulers never import each other. What a scheduler cannot do follows from its `Capabilities`; it is refused at submit
or emulated. *Missing is not finished*: an absent answer means "unknown" and is requested again; it is never success.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tony.errors import InfraError, Problem, SchedulerError
from tony.model.codec import Json
from tony.model.ids import TaskId
from tony.model.job_report import JobReport
from tony.model.job_spec import JobSpec
from tony.model.layout import Home, JobFolder
from tony.model.states import JobState
from tony.model.submission_record import JobRecord
from tony.protocol.launch import AmCredentials, TaskLaunch, TaskPart
from tony.schedulers.capabilities import Capabilities

if TYPE_CHECKING:
    from tony.core.events import Event
    from tony.storage.staging.remote_files import RemoteFiles


#: Window in seconds in which AM failures count against `am_attempts`.
ATTEMPTS_WITHIN = 600.0
#: Receives the allocator's events: Granted, ContainerEnded, Queued, Unsatisfiable, Excluded.
Sink = Callable[["Event"], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageProxy:
    """The proxy through which browsers reach a job's page.

    Attributes:
        peers: addresses of the scheduler's proxies; requests from other addresses are refused.
        proxy: URL of the page as browsers see it.
        origins: origins of the proxies as browsers send them: `https://rm.example.org:8090`.
        runs_as: OS users that the proxies may run as on this machine.
        vouches: every user that the proxy lets through may see the job.
        packages: zip with the full page; empty if only the plain page can be served.
        plain: why only the plain page can be served, as a sentence.
    """

    peers: tuple[str, ...]
    proxy: str
    origins: tuple[str, ...] = ()
    runs_as: tuple[str, ...] = ()
    vouches: bool = True
    packages: str = ""
    plain: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownContainer:
    """A container granted to an earlier AM attempt that has not been seen to end, according to the event log.

    Attributes:
        task: the task whose executor was launched in it; None if none was.
        executor_pid: pid of the executor, if it has registered.
    """

    id: str
    role: str
    host: str
    task: TaskId | None = None
    executor_pid: int | None = None


class Journal(ABC):
    """Durable copy of an event log outside the job directory. Effects of an event are shown only once it is durable.

    Attributes:
        is_waived: the copy has failed for so long that it is not waited for: `safe` is called all the same.
    """

    is_waived: bool = False

    @abstractmethod
    def wrote(self, size: int, *, urgent: bool) -> None:
        """Persist the first `size` bytes of the file: at once if `urgent` (a caller is waiting), else soon.

        `safe` is called when that is done, see `ContainerAllocator.journal`.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class AmAddresses:
    """Where an AM is reached.

    Attributes:
        am: for executors and clients; empty if the AM does not listen.
        page: host:port of the job's page, if it has one.
    """

    am: str = ""
    page: str = ""


NOT_LISTENING = AmAddresses()


class SignalEffect(Enum):
    """What a signal to the AM's process means for the job."""

    END_JOB = "end-job"
    LEAVE_JOB = "leave-job"  #: to the next AM attempt


class ContainerAllocator(ABC):
    """The scheduler's half in the application master.

    All methods are called from the AM's event loop and return at once unless they are `async`. They are idempotent.
    """

    capabilities: Capabilities
    #: Seconds that a user program outlives its connection to the AM unless the job sets `orphan_grace`.
    lease: float = 600.0
    #: Seconds for which the previous AM attempt may still believe that it is current after this one has started.
    overlap: float = 0.0
    #: This AM attempt as the scheduler counts them; None: count the event logs.
    attempt: int | None = None
    #: Scheduler whose `Submitter.dial` connects clients to the AM; empty: they connect directly.
    dialed_by: str = ""
    #: Whether `store_metrics` does anything.
    stores_metrics: bool = False

    @property
    def host(self) -> str:
        """Host name under which other machines reach this one."""
        return socket.getfqdn()

    @property
    def listen_host(self) -> str:
        """Host name or address on which the AM listens, where executors and clients connect to another one."""
        return self.host

    async def on_signal(self, number: int) -> SignalEffect:
        """Return what SIGTERM or SIGINT means; what is not known is left to the next AM attempt.

        By default a signal is meant for the job, unless the scheduler counts AM attempts: then it sends SIGTERM to
        each, whatever the reason, and another one may follow.
        """
        return SignalEffect.END_JOB if self.attempt is None else SignalEffect.LEAVE_JOB

    def exit_code(self, report: JobReport) -> int:
        """Return the exit code of an AM that has ended its job. Most schedulers ignore it: they get the report."""
        return 0

    def page_proxy(self) -> PageProxy | None:
        """Return the proxy of the job's page; None if the scheduler has no web proxy."""
        return None

    @abstractmethod
    async def open(self, sink: Sink, addresses: AmAddresses = NOT_LISTENING) -> None:
        """Connect to the scheduler. From now on `sink` receives events, on the event loop.

        Raises:
            SchedulerError: the scheduler cannot be used.
        """

    def is_current_attempt(self) -> bool:
        """Return True if certainly no later AM attempt of this job has been started yet.

        Otherwise connected executors are not told to count on this AM: a later one may give up their programs.
        """
        return True

    async def watch(self) -> None:  # noqa: B027 - not every scheduler can be lost
        """Watch the connection to the scheduler; return when nothing is left to watch. Called once, after `open`.

        Raises:
            SchedulerError: the scheduler is lost for good, and with it the job.
        """

    async def fetch_event_logs(self) -> None:  # noqa: B027 - nothing to do where the job's folder outlives the AM
        """Fetch complete event logs of earlier AM attempts into the job directory, and fence their writers.

        Called before `open`.

        Raises:
            SchedulerError: they cannot be fetched.
        """

    def journal(self, segment: Path, safe: Callable[[int], None]) -> Journal | None:
        """Create the durable copy of this AM attempt's event log. Called once, before `open`.

        Args:
            segment: the log in the job directory; its header has been written.
            safe: called on the event loop with the number of bytes that are durable, or no longer waited for.

        Returns:
            None where the job directory is durable enough.
        """
        return None

    async def store_metrics(self, copy: Path) -> None:  # noqa: B027 - see `fetch_event_logs`
        """Persist the metrics recorded so far for the next AM attempt and for readers.

        The final metrics are in the job directory when `finish` is called.

        Args:
            copy: a copy of the metrics file; it does not change during the call.

        Raises:
            InfraError: it cannot be done now.
        """

    @abstractmethod
    async def recover(self, known: Sequence[KnownContainer]) -> Sequence[str]:
        """Return the containers of earlier AM attempts that are still running, and stop everything else they left.

        From now on they belong to this AM: their ends are reported, they may be released and killed, and they count
        towards the demand. Waits while a container's state is unknown: missing is not ended.

        Args:
            known: the containers according to the event log; empty in the first AM attempt.
        """

    @abstractmethod
    def set_demand(self, role: str, total: int) -> None:
        """Request `total` containers of a role, including granted ones that have not ended.

        Answered by `Granted` events at any time, by `Queued` with the pending reason while resources are missing, or by
        `Unsatisfiable` if the request can never be met. A lower total withdraws open requests and never takes away a
        granted container. A granted container that ended no longer counts, so a new one is granted unless the total
        was lowered before.
        """

    @abstractmethod
    async def launch(self, container: str, task: TaskPart, credentials: AmCredentials) -> None:
        """Start the executor of a task in a granted container.

        Raises:
            SchedulerError: it could not be started; the container is gone (no `ContainerEnded` follows).
        """

    async def enlist(self, container: str, process: str) -> TaskLaunch:
        """Return the task of an executor that was started without one; wait until it is launched. Repeatable.

        Only for schedulers with `Capabilities.enlists`; see `EnlistingAllocator`.

        Args:
            process: identifies the executor's process.

        Raises:
            SchedulerError: the container is not known, has ended, or has another executor.
        """
        raise SchedulerError("the executors of this scheduler do not enlist")

    def on_attached(self, container: str) -> None:  # noqa: B027 - only executors that enlist are waited for
        """Note that the executor of a container is connected, whichever AM attempt launched it."""

    @abstractmethod
    def release(self, container: str, timeout: float) -> None:
        """Release a container. Its executor was asked to exit; it is killed after `timeout` seconds.

        A container in which nothing was launched is released at once. `ContainerEnded` follows in every case.
        """

    @abstractmethod
    def kill(self, container: str, reason: str) -> None:
        """Kill a container and everything in it at once. `ContainerEnded` follows."""

    def exclude(self, host: str) -> None:  # noqa: B027 - nothing to choose on a single machine
        """Request no further containers on this host while enough other hosts remain. May emit `Excluded`."""

    def include(self, host: str) -> None:  # noqa: B027
        """Undo `exclude`. Emits `Excluded` if the host was excluded."""

    @abstractmethod
    async def close(self) -> None:
        """Stop every remaining container and release everything; leave no process and no file behind."""

    async def finish(self, report: JobReport) -> None:  # noqa: B027 - few schedulers need it
        """Report the job's outcome to the scheduler: the last call, after the summary was written.

        The caller sets no timeout, since an unreported job counts as lost. It returns when it has given up.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedJob:
    """A staged job, ready to be submitted.

    Attributes:
        home: the submitter's state directory.
        folder: the job directory; job.json, secret/ and staged/ are in place.
        record: content of job.json, with secrets.
    """

    home: Home
    folder: JobFolder
    record: JobRecord


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
        given_up: the scheduler itself has failed the job: the AM's node was lost, or its container failed.
        overdue: the time limit for which the scheduler itself killed it, as a sentence; empty if there was none.
        dialed_by: as `ContainerAllocator.dialed_by`.
    """

    alive: bool | None
    address: str = ""
    host: str = ""
    attempt: int = 0
    note: str = ""
    result: JobState | None = None
    given_up: bool = False
    overdue: str = ""
    dialed_by: str = ""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class WebLink:
    """A web page of the scheduler.

    Attributes:
        label: what it shows.
        href: `http://...` or `https://...`.
    """

    label: str
    href: str


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


class Submitter(ABC):
    """The scheduler's half in the client."""

    capabilities: Capabilities

    def allocate_job_id(self) -> str | None:
        """Return a new job's id from a scheduler that allocates ids; None: the client makes one. After `check`."""
        return None

    @abstractmethod
    def check(self, spec: JobSpec) -> Sequence[Problem]:
        """Return requests that this scheduler can never satisfy, with the arithmetic, and errors in its settings."""

    def notices(self, spec: JobSpec) -> Sequence[str]:
        """Return hints for the submitter that are not errors; one or two sentences each."""
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

    def owns(self, job_id: str) -> bool:
        """Return True if this scheduler allocated the id, so that the job can be found by it from any machine."""
        return False

    async def application_status(self, job_id: str) -> ApplicationStatus | None:
        """Return the scheduler's current view of a job; None where the job directory has everything.

        Raises:
            SchedulerError: it does not know the job, or cannot be reached.
        """
        return None

    async def all_jobs(self) -> Sequence[ListEntry]:
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

    async def dial(self, folder: JobFolder, address: str) -> socket.socket:
        """Return a connected, non-blocking socket that leads to the address of a job's AM.

        Only for schedulers that clients need for that (`ContainerAllocator.dialed_by`).

        Raises:
            OSError: the AM cannot be reached.
        """
        raise NotImplementedError

    def own_logs_command(self, job_id: str) -> str:
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
        """Kill a running job that `unrecorded` describes, if it is certainly a job of tony and not of another tool.

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
    def submitter(self, home: Home) -> Submitter:
        """Return the client's half."""

    def source(self, job: PreparedJob) -> ContainerAllocator:
        """Return the half of an application master on the client's machine.

        In a container on another machine its `AmContainer` creates it.

        Raises:
            InfraError: this scheduler has none.
        """
        raise InfraError(f"the application master of a job on {self.name} does not run on the client's machine")
