"""The interface to a scheduler in the application master: it gets containers and starts executors in them.

*Missing is not finished*: an absent answer means "unknown" and is requested again; it is never success.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from tony.errors import SchedulerError
from tony.model.ids import TaskId
from tony.model.job_report import JobReport
from tony.model.log_file_tail import LogFileTail
from tony.protocol.launch import AmCredentials, TaskLaunch, TaskPart
from tony.schedulers.capabilities import Capabilities

if TYPE_CHECKING:
    from tony.core.events import Event

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
        memory: its bytes; None: as the job says.
    """

    id: str
    role: str
    host: str
    memory: int | None = None
    task: TaskId | None = None
    executor_pid: int | None = None


class Journal(ABC):
    """Durable copy of an event log outside the job directory. Effects of an event are shown only once it is durable.

    Attributes:
        is_waived: the copy has failed for so long that it is not waited for: `safe` is called all the same.
    """

    is_waived: bool = False

    @abstractmethod
    def note_written(self, size: int, *, urgent: bool) -> None:
        """Persist the first `size` bytes of the file: at once if `urgent` (a caller is waiting), else soon.

        `safe` is called when that is done, see `ContainerAllocator.journal`.
        """

    @abstractmethod
    async def watch(self) -> None:
        """Wait until a write shows that a later AM attempt has taken over the log: nothing more is durable then.

        Raises:
            AttemptSupersededError: it has.
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
    #: Seconds for which the previous AM attempt may still take itself for the current one after this one has started.
    overlap: float = 0.0
    #: This AM attempt as the scheduler counts them; None: count the event logs.
    attempt: int | None = None
    #: Scheduler whose `Submitter.dial` connects clients to the AM; empty: they connect directly.
    dialed_by: str = ""
    #: Whether `store_metrics` does anything.
    stores_metrics: bool = False
    #: Bytes that `store_output` keeps of a job; 0: nothing, since log files outlive their containers.
    output_limit: int = 0

    @property
    def host(self) -> str:
        """Host name under which other machines reach this one."""
        return socket.getfqdn()

    @property
    def listen_host(self) -> str:
        """Host name or address on which the AM listens, where executors and clients connect to another one."""
        return self.host

    @property
    def listen_port(self) -> int:
        """Port on which the AM listens there; 0: any free one."""
        return 0

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

    def find_start_failure(self, container: str) -> str:
        """Return why a granted container cannot start at the moment; empty if it can, or nothing says so."""
        return ""

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

    async def store_output(self, tails: Sequence[LogFileTail]) -> None:  # noqa: B027 - see `output_limit`
        """Persist the ends of programs' output for readers. Repeatable.

        Raises:
            InfraError: it cannot be done now.
        """

    @abstractmethod
    async def recover(self, known: Sequence[KnownContainer]) -> Sequence[str]:
        """Return the containers of earlier AM attempts that are still running, and stop everything else they left.

        From now on they belong to this AM: their ends are reported, they may be released and killed, and they count
        towards the demand. Waits while a container's state is unknown: missing is not ended. Called once by each AM
        attempt, after `open` and before any demand.

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

    def set_memory(self, role: str, memory: int) -> None:  # noqa: B027 - where containers have no limit of their own
        """Request `memory` bytes for each further container of a role, instead of what the job says.

        Called before the demand that needs them. Open requests are for that much from now on; `Granted.memory` says how
        much a container has if it may have been granted before. `Unsatisfiable` follows if there can never be so much.
        """

    @abstractmethod
    async def launch(self, container: str, task: TaskPart, credentials: AmCredentials) -> None:
        """Start the executor of a task in a granted container.

        Returns early if the container ends while this waits for its executor; a `ContainerEnded` says why.

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
