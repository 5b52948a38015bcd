"""What a scheduler is: a client half that submits, and a half inside the application master that gets containers.

Schedulers never import each other. What one cannot do is said in its `Capabilities` and refused at submit or emulated.
*Missing is not finished*: an absent answer is "unknown" and asked again, never success.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tony.core.events import Event
from tony.dataclass import dataclass
from tony.errors import Problem
from tony.model.codec import Json
from tony.model.ids import TaskId
from tony.model.job_record import JobRecord
from tony.model.job_report import JobReport
from tony.model.job_spec import JobSpec
from tony.model.layout import Home, JobFolder
from tony.model.states import JobState
from tony.protocol.launch import AmCredentials, TaskPart

if TYPE_CHECKING:
    from tony.storage.remote_files import RemoteFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a scheduler can do. Core and command line ask for a power, never for a scheduler's name.

    Attributes:
        gang: grants all of a job's containers together or none of them.
        recover: containers survive the application master.
        gpus: knows GPUs as a resource.
        same_host: client, application master and executors share a machine, so a Unix socket reaches.
        inherits_environment: programs get the submitter's environment underneath.
        log_files: a client reads the tasks' log files directly.
        chooses: can keep containers off a host (`ContainerAllocator.exclude`).
        images: can run containers in an image.
    """

    gang: bool
    recover: bool
    gpus: bool
    same_host: bool
    inherits_environment: bool
    log_files: bool
    chooses: bool = False
    images: bool = False


#: Seconds within which the lives of an application master count for `am_attempts`.
ATTEMPTS_WITHIN = 600.0
#: Where a container source puts what happens: Granted, ContainerEnded, Queued, Unsatisfiable, Excluded.
Sink = Callable[[Event], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageProxy:
    """Through whom people come to a job's page.

    Attributes:
        peers: addresses of the scheduler's own proxies; nobody else is answered.
        proxy: URL of the page as people see it.
        origins: how browsers call the proxies: `https://rm.example.org:8090`.
        runs_as: users as which they may run on this machine.
        vouches: whoever they let through may see the job.
        packages: the zip with what serves more than one plain page; empty if there is none.
        plain: why there is none, for people.
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
    """A container that an earlier attempt has been granted and has not seen end, as the event log has it.

    Attributes:
        task: whose executor was launched in it; None if nobody's.
        executor_pid: of its executor, if that has registered.
    """

    id: str
    role: str
    host: str
    task: TaskId | None = None
    executor_pid: int | None = None


class Journal(ABC):
    """Where an event log has to be in safety before its effects may be seen, beside the file in the job's folder.

    Attributes:
        is_waived: it cannot be brought there for long, so that nobody waits for it: `safe` is said all the same.
    """

    is_waived: bool = False

    @abstractmethod
    def wrote(self, size: int, *, urgent: bool) -> None:
        """The file has `size` bytes now; they are to be brought to safety: at once if somebody waits for it, else soon.

        Answered by a call of `safe`, see `ContainerAllocator.journal`.
        """


class ContainerAllocator(ABC):
    """The application master's half. All methods are called from the AM's one event loop and return at once
    unless they are `async`. Every call may come twice; asking for what already is does nothing."""

    capabilities: Capabilities
    #: Seconds that a program outlives its contact to the application master unless the job says so (`orphan_grace`).
    lease: float = 600.0
    #: Seconds for which an earlier application master may take itself to be in charge although this one has begun.
    overlap: float = 0.0
    #: Which life of the application master this one is, as the scheduler counts them; None: as its event logs do.
    attempt: int | None = None
    #: Whether `keep_measured` does anything.
    keeps_measured: bool = False
    #: Where executors and clients reach the application master; set before `open`.
    master_address: str = ""
    #: host:port of the job's page, if it has one; set before `open`.
    page_address: str = ""

    @property
    def host(self) -> str:
        """The name under which others reach this machine."""
        return socket.getfqdn()

    def page_door(self) -> PageProxy | None:
        """Who may see the job's page; None if the scheduler has no pages of its own."""
        return None

    @abstractmethod
    async def open(self, sink: Sink) -> None:
        """Connects to the scheduler. From now on events go to `sink`, called on the event loop.

        Raises:
            SchedulerError: the scheduler cannot be used.
        """

    def in_charge(self) -> bool:
        """Whether it is certain that no later application master of this job has been started yet. Else executors that
        still hear this one are not told to count on it: their programs may be given up by the later one."""
        return True

    async def watch(self) -> None:  # noqa: B027 - not every scheduler can be lost
        """Returns when there is nothing more to watch. Called once, after `open`.

        Raises:
            SchedulerError: the scheduler is lost for good, and the job with it.
        """

    async def bring_log(self) -> None:  # noqa: B027 - nothing to do where the job's folder outlives its masters
        """Brings the event logs of earlier attempts into the job's folder, whole, and sees to it that no earlier
        application master can write on. Called before `open`.

        Raises:
            SchedulerError: they cannot be had.
        """

    def journal(self, segment: Path, safe: Callable[[int], None]) -> Journal | None:
        """Makes the place where this attempt's event log is in safety. Called once, before `open`.

        Args:
            segment: the log in the job's folder; it has its header.
            safe: to be called on the event loop: so many bytes are in safety, or are not to be waited for any longer.

        Returns:
            None where the job's folder is safety enough.
        """
        return None

    async def keep_measured(self, copy: Path) -> None:  # noqa: B027 - as of `bring_log`
        """Brings what was measured so far to where the next application master and readers find it. The last of it is
        in the job's folder when `finish` is called.

        Args:
            copy: of the file; it does not change meanwhile.

        Raises:
            InfraError: that cannot be done now.
        """

    @abstractmethod
    async def recover(self, known: Sequence[KnownContainer]) -> Sequence[str]:
        """Which of these containers of earlier attempts live. From now on they are ours: their ends are told, they may
        be released and killed, and count for the demand. Whatever else is left of earlier attempts is ended.

        One of which nothing can be found out yet is waited for: missing is not ended.

        Args:
            known: what the event log says of them; none in the first attempt.
        """

    @abstractmethod
    def set_demand(self, role: str, total: int) -> None:
        """Have `total` containers of a role in all, granted ones that have not ended included.

        Answered by `Granted` events, at any time; by `Queued` while there is no room, with what is missing and behind
        whom; by `Unsatisfiable` if it can never be. A lower total withdraws open requests and never takes a granted
        container away. A granted container that ended no longer counts: the demand stands, so a new one is granted,
        unless the total was lowered before.
        """

    @abstractmethod
    async def launch(self, container: str, task: TaskPart, credentials: AmCredentials) -> None:
        """Starts the executor of a task in a granted container.

        Raises:
            SchedulerError: it could not be started; the container is gone (no `ContainerEnded` follows).
        """

    @abstractmethod
    def release(self, container: str, patience: float) -> None:
        """Gives a container back. Its executor was told to end; after `patience` seconds it is ended by force.

        A container that never was launched is given back at once. `ContainerEnded` follows in every case.
        """

    @abstractmethod
    def kill(self, container: str, reason: str) -> None:
        """Ends a container and everything in it at once. `ContainerEnded` follows."""

    def exclude(self, host: str) -> None:  # noqa: B027 - where there is one machine only, there is nothing to choose
        """No further container on this host, as long as enough others are left. Answered by `Excluded`, if so."""

    def include(self, host: str) -> None:  # noqa: B027
        """Takes an exclusion back. Answered by `Excluded`, if it was one."""

    @abstractmethod
    async def close(self) -> None:
        """Ends every container that is left, gives everything back, leaves no process and no file behind."""

    async def finish(self, report: JobReport) -> None:  # noqa: B027 - few schedulers want to know
        """Tells the scheduler how the job ended: the last call of all, after the summary was written.

        Nobody limits its time: who is not told takes the job for lost. It ends when it has given up.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedJob:
    """A job that is staged and ready to be handed to a scheduler.

    Attributes:
        home: the submitter's state.
        folder: the job's record; job.json, secret/ and staged/ are in place.
        record: what is in job.json, unredacted.
    """

    home: Home
    folder: JobFolder
    record: JobRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationStatus:
    """What a scheduler sees of a job whose application master runs elsewhere.

    Attributes:
        alive: whether it lives, or is about to; None if that cannot be told now.
        address: where it listens, as in `am.json`; empty before it does.
        host: where it runs.
        attempt: which life of it.
        note: what the scheduler has to say: why it waits, or why it ended.
        result: how it ended, as its application master told the scheduler, or as KILLED if somebody had the scheduler
            end it; None if nobody told.
        given_up: the scheduler itself has ended it as failed: its master's node is lost, or its container failed.
        overdue: the limit of time for which the scheduler itself has ended it, in a sentence; empty if there was none.
    """

    alive: bool | None
    address: str = ""
    host: str = ""
    attempt: int = 0
    note: str = ""
    result: JobState | None = None
    given_up: bool = False
    overdue: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListEntry:
    """One job in a scheduler's own list, whoever submitted it from wherever.

    Attributes:
        submitted, ended: seconds since 1970.
        exit_code: what a follower's command line would answer, as far as the scheduler knows; None before the end.
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
    """A page of the scheduler's own, for people.

    Attributes:
        label: what it shows.
        href: `http://...` or `https://...`.
    """

    label: str
    href: str


class LogSink(Protocol):
    """Takes log files that a scheduler found. Names are those of the files in a job's `logs/`."""

    def begins(self, name: str, older: int, newer: int) -> int | None:
        """There is such a file.

        Args:
            older, newer: bytes of `<name>.1`, which holds what came before, and of `<name>`.

        Returns:
            How many bytes of both together are here already; None if it is not wanted.
        """

    def put(self, name: str, start: int, offset: int, data: bytes) -> None:
        """A piece of it; both files together count as one.

        Args:
            start: where the file that it is of begins: 0, or the length of the older one.
        """


class Submitter(ABC):
    """The client's half."""

    capabilities: Capabilities

    def own_id(self) -> str | None:
        """A new job's id, from a scheduler that gives ids itself; None: the client makes one. After `check`."""
        return None

    @abstractmethod
    def check(self, spec: JobSpec) -> Sequence[Problem]:
        """What this scheduler can never do for this job, with the arithmetic, and mistakes in its own settings."""

    def notices(self, spec: JobSpec) -> Sequence[str]:
        """What the submitter should know although it is no mistake; a sentence or two each."""
        return ()

    def remote_files(self, spec: JobSpec, others: Mapping[str, Mapping[str, object]]) -> RemoteFiles:
        """The file systems of a cluster, for what a job names there by address. After `check`.

        Args:
            others: name -> what the job says for a scheduler that is not its own.

        Raises:
            ValueError: there are none.
            TonyError: its configuration cannot be used.
        """
        raise ValueError("only paths of this machine can be given.")

    @abstractmethod
    def render(self, job: PreparedJob) -> Json:
        """The exact request that `submit` will send, pure, for golden tests and `--dry-run`. No secrets in it."""

    @abstractmethod
    async def submit(self, job: PreparedJob) -> None:
        """Hands the job over. After this the client may die.

        Raises:
            SchedulerError: the scheduler refused it; nothing is left behind.
        """

    @abstractmethod
    def am_alive(self, folder: JobFolder) -> bool | None:
        """Whether the job's application master lives; None if that cannot be told now."""

    @abstractmethod
    async def sweep(self, folder: JobFolder) -> None:
        """Ends whatever an application master that died has left behind: executors, programs. May be called twice."""

    async def withdraw(self, folder: JobFolder, reason: str) -> None:
        """Ends a job whose application master has not come up, or does not answer. May be called twice.

        Args:
            reason: for those who ask the scheduler what became of it.

        Raises:
            SchedulerError: it cannot be told.
        """
        await self.sweep(folder)

    async def keep(self, folder: JobFolder) -> None:  # noqa: B027 - nothing to do where the folder is the job's own
        """Puts what is kept in the job's folder for its next application master where that one finds it.

        Raises:
            SchedulerError, HadoopError: it cannot be put there.
        """

    async def standing(self, job_id: str) -> str:
        """Where a job stands in its queue that waits for its application master, for people; empty if nobody knows.

        Raises:
            SchedulerError: it cannot be asked.
        """
        return ""

    def owns(self, job_id: str) -> bool:
        """Whether this scheduler gave the id, so that a job can be found by it from any machine."""
        return False

    async def look(self, job_id: str) -> ApplicationStatus | None:
        """What the scheduler knows of a job now; None where the job's folder says it all.

        Raises:
            SchedulerError: it does not know the job, or cannot be asked.
        """
        return None

    async def all_jobs(self) -> Sequence[ListEntry]:
        """Every job that the scheduler knows; none where the home knows them all.

        Raises:
            SchedulerError: there is no such scheduler here, or it cannot be asked.
        """
        return ()

    async def fetch(self, folder: JobFolder) -> None:  # noqa: B027 - nothing to do where the folder is the job's own
        """Brings a job's folder here up to what its application master wrote elsewhere. May be called again and again.

        Raises:
            SchedulerError: it cannot be had now.
        """

    async def page(self, job_id: str) -> str:
        """The address under which its own pages show a job; empty if it has none that does.

        Raises:
            SchedulerError: it cannot be asked.
        """
        return ""

    async def links(self, job_id: str, *, ended: bool) -> Sequence[WebLink]:
        """Its own pages that show a job. Nobody is asked: what is there may be down.

        Args:
            ended: so has the job.

        Raises:
            TonyError: it is not known where they would be.
        """
        return ()

    async def container_links(
        self, job_id: str, containers: Mapping[str, str], *, user: str, ended: bool
    ) -> Mapping[str, Sequence[WebLink]]:
        """Its own pages with what was printed in containers, for those that have any.

        Args:
            containers: id -> host.
            user: whose job it is, as the scheduler knows them; empty: ours.
            ended: so has the job.

        Raises:
            TonyError: it is not known where they would be.
        """
        return {}

    async def unrecorded(self, job_id: str) -> str:
        """Of a job that it knows, and that has no record which `fetch` could bring: how it stands, and why there is
        none, for people; empty if it does not know the job either.

        Raises:
            SchedulerError: it cannot be asked.
        """
        return ""

    async def end_unrecorded(self, job_id: str) -> bool:
        """Ends a job that `unrecorded` tells of, if it is one of ours for certain and has not ended.

        Raises:
            SchedulerError: it cannot be asked.
        """
        return False

    async def fetch_logs(  # noqa: B027 - as above
        self, folder: JobFolder, containers: Mapping[str, str], sink: LogSink, *, owner: str = ""
    ) -> None:
        """Finds what was printed in containers that have ended: nobody can ask their executors any more.

        Args:
            containers: id -> host of those that are known to have ended.
            owner: whose the job must be, as the scheduler knows them. Empty: the record is our own, and is believed.

        Raises:
            SchedulerError: there is nothing, or it cannot be had; says why and what to do.
        """


class Scheduler(ABC):
    """One cluster manager: makes both halves."""

    #: The word in the job file.
    name: str = ""

    @abstractmethod
    def submitter(self, home: Home) -> Submitter:
        """The client's half."""

    @abstractmethod
    def source(self, job: PreparedJob) -> ContainerAllocator:
        """The application master's half."""
