"""All errors that this package raises on purpose.

    TonyError
    ├── UserError                       the input or the user's program
    │   ├── ConfigError                 rejected before anything started; carries all problems     exit 2
    │   ├── ArchiveError                an archive that is damaged, or would extract outside       exit 2
    │   ├── UnknownJobError             an unknown job id                                          exit 2
    │   └── ProgramError                the user's program (or its limits) failed the job          exit 1
    │       └── TimeLimitExceededError  a time limit enforced by the scheduler was exceeded
    ├── InfraError                      cluster, network, machine                                  exit 3
    │   ├── ConnectionFailedError       the other side cannot be reached, or the connection broke
    │   ├── OverloadedError             no thread is free, or the work takes too long
    │   ├── SchedulerError              the scheduler refused, or did not answer
    │   │   ├── UncertainSubmissionError  a submission failed, and its job may be running all the same
    │   │   ├── NoClusterError          no cluster is configured, or the configured one has ended
    │   │   ├── UnrecordedJobError      the scheduler knows the job, but there is no job directory (yet)
    │   │   ├── SchedulerLostError      the scheduler stopped answering while the job ran
    │   │   ├── AttemptLostError        the scheduler has ended the application master, and the job with it
    │   │   └── AttemptSupersededError  a later AM attempt has taken over the job
    │   └── StorageError                a file system refused (full, read-only, missing)
    ├── KilledError                     the job was killed on request                              exit 4
    └── PlatformError                   a bug in tony                                              exit 70
        ├── InvalidTransitionError      a transition that the table of the state machine lacks
        ├── ProtocolError               the other side broke the wire protocol; `code` says how
        └── RecordError                 an event log or job directory is damaged
            ├── MissingRecordError      what a command reads of a job was never kept                exit 2
            └── NewerRecordError        it was written by a newer version                          exit 2

A message says what failed, the setting and its value, where it was set, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of the command line for a job that it followed to the end."""

    SUCCEEDED = 0
    PROGRAM_FAILED = 1
    REFUSED = 2
    INFRASTRUCTURE = 3
    KILLED = 4
    BUG = 70


class InterruptedBySignal(KeyboardInterrupt):
    """KeyboardInterrupt for the other termination signals; `number` is the signal."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__()


class TonyError(Exception):
    """The base class; catch this to catch every error of tony."""

    exit_code: ExitCode = ExitCode.BUG


class UserError(TonyError):
    """An error in the input or in the user's program."""

    exit_code = ExitCode.REFUSED


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One error in a job's settings.

    Attributes:
        key: the dotted key, such as `roles.worker.memory`; empty for a whole file.
        message: what is wrong and what to write instead, one or two sentences.
        value: the offending value as the user wrote it, or None when it is missing.
        source: where it was set: `job.toml:12`, `--set`, `env TONY_SET_...`, `default`.
    """

    key: str
    message: str
    value: str | None = None
    source: str | None = None

    def __str__(self) -> str:
        shown = self.key if self.value is None else f"{self.key} = {self.value}"
        if not shown:
            return f"{self.source}: {self.message}" if self.source else self.message
        where = f" ({self.source})" if self.source else ""
        return f"{shown}{where}: {self.message}"


class ConfigError(UserError):
    """All errors found in a job's settings; nothing has been started.

    Attributes:
        checked_file: the file, for a command that only validates it; empty if the command would have started something.
    """

    def __init__(self, problems: Sequence[Problem], checked_file: str = "") -> None:
        self.problems = tuple(problems)
        self.checked_file = checked_file
        super().__init__("\n".join(str(problem) for problem in self.problems))


class ArchiveError(UserError):
    """A user's archive is damaged, cannot be read, or contains entries that are not allowed."""


class UnknownJobError(UserError):
    """The job id was not found in any configured location."""


class ProgramError(UserError):
    """The user's program failed, or exceeded one of its limits."""

    exit_code = ExitCode.PROGRAM_FAILED


class TimeLimitExceededError(ProgramError):
    """The scheduler ended the job because it exceeded a time limit that the scheduler enforces."""


class InfraError(TonyError):
    """An error of the cluster, the network or the machine; trying again later may help."""

    exit_code = ExitCode.INFRASTRUCTURE


class ConnectionFailedError(InfraError):
    """The other side cannot be reached, or the connection broke.

    Attributes:
        no_listener: True if nothing serves that address now, as far as is known: the connection was refused or closed
            without an answer, there is no socket file, the AM has not started or has ended. False after a timeout, for
            an unknown host, and for a connection that broke.
    """

    def __init__(self, message: str, *, no_listener: bool = False) -> None:
        self.no_listener = no_listener
        super().__init__(message)


class OverloadedError(InfraError):
    """No thread is free for the request, or the work takes longer than a request may."""


class SchedulerError(InfraError):
    """The scheduler refused, or did not answer."""


class UncertainSubmissionError(SchedulerError):
    """A submission failed, and its job may be running all the same."""


class NoClusterError(SchedulerError):
    """No cluster is configured, or the one on this machine has ended."""


class UnrecordedJobError(SchedulerError):
    """The scheduler knows the job, but there is no job directory to read (yet)."""


class SchedulerLostError(SchedulerError):
    """The scheduler stopped answering, and the job cannot continue without it."""


class AttemptLostError(SchedulerError):
    """The scheduler ended an application master, and the job with it, although no user asked for that."""


class AttemptSupersededError(SchedulerError):
    """A later AM attempt has taken over the job, or will: this one changes nothing and exits."""


class StorageError(InfraError):
    """A file system refused: full, read-only, missing."""


class KilledError(TonyError):
    """The job was killed on request."""

    exit_code = ExitCode.KILLED


class PlatformError(TonyError):
    """A bug in tony; please report it together with the event log."""

    exit_code = ExitCode.BUG


class InvalidTransitionError(PlatformError):
    """A requested transition is not in the state machine's table."""


class ProtocolError(PlatformError):
    """The other side broke the wire protocol.

    Attributes:
        code: stable word for programs: see `tony.protocol.error_codes`.
    """

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


class RecordError(PlatformError):
    """An event log or a job directory is damaged."""


class MissingRecordError(RecordError):
    """What a command reads of a job was never kept, such as events of a job whose AM was never started."""

    exit_code = ExitCode.REFUSED


class NewerRecordError(RecordError):
    """An event log or a job directory was written by a newer version: not a bug, but it cannot be read reliably."""

    exit_code = ExitCode.REFUSED


def join_lines(error: Exception) -> str:
    """Return the message of an error on one line, such as a list of unreachable daemons; never empty."""
    return " ".join(str(error).split()) or type(error).__name__


def get_first_line(error: Exception) -> str:
    """Return the first line of an error's message, to continue it: without a colon at its end."""
    return str(error).partition("\n")[0].rstrip(":")


@contextmanager
def raise_first_error() -> Iterator[None]:
    """Raise the first error of a task group itself instead of a group."""
    try:
        yield
    except BaseExceptionGroup as several:
        raise _find_first(several) from None


def _find_first(several: BaseExceptionGroup[BaseException]) -> BaseException:
    error = several.exceptions[0]
    return _find_first(error) if isinstance(error, BaseExceptionGroup) else error
