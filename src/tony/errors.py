"""Every error this package raises on purpose.

    TonyError
    ├── UserError                 the input or the user's program
    │   ├── ConfigError           refused before anything started; carries all problems      exit 2
    │   ├── ArchiveError          an archive that is damaged, or would write outside         exit 2
    │   ├── UnknownJobError       a job id that nobody knows                                 exit 2
    │   └── ProgramError          the user's program (or its limits) failed the job          exit 1
    │       └── Overdue           a limit of time that the scheduler keeps is over
    ├── InfraError                cluster, network, machine                                  exit 3
    │   ├── ConnectionFailed      the other side cannot be reached, or went away
    │   ├── SchedulerError        the scheduler said no, or gave no answer
    │   │   ├── NoClusterError    nobody says which cluster is meant, or the one that is has ended
    │   │   ├── SchedulerLost     it gives no answer any more, in the midst of a job
    │   │   └── AttemptLost       it has given up the application master, and the job with it
    │   └── StorageError          a file system said no (full, read-only, missing)
    ├── KilledError               somebody killed the job                                    exit 4
    └── PlatformError             our bug                                                    exit 70
        ├── InvalidTransition     the machine was asked for a move that its table lacks
        ├── ProtocolError         the other side broke the wire's rules; `code` says how
        └── RecordError           an event log or record cannot be read as what it claims to be
            └── NewerRecordError  a newer version wrote it                                   exit 2

A message says what failed, the setting and its value, where it was set, and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from tony.dataclass import dataclass


class ExitCode(IntEnum):
    """What the command line answers for a job that it followed to the end."""

    SUCCEEDED = 0
    PROGRAM_FAILED = 1
    REFUSED = 2
    INFRASTRUCTURE = 3
    KILLED = 4
    BUG = 70


class TonyError(Exception):
    """The root; catch this to catch everything of ours."""

    exit_code: ExitCode = ExitCode.BUG


class UserError(TonyError):
    """The input, or the user's program."""

    exit_code = ExitCode.REFUSED


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One mistake in a job's settings.

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
    """All errors found in a job's settings, at once; nothing has been started.

    Attributes:
        checked_file: the file of a command that only reads it; empty if the command would have started something.
    """

    def __init__(self, problems: Sequence[Problem], checked_file: str = "") -> None:
        self.problems = tuple(problems)
        self.checked_file = checked_file
        super().__init__("\n".join(str(problem) for problem in self.problems))


class ArchiveError(UserError):
    """An archive of the user's that is damaged, cannot be read, or holds what it may not hold."""


class UnknownJobError(UserError):
    """A job id that is in no place we can see."""


class ProgramError(UserError):
    """The user's program failed, or ran into one of the limits set for it."""

    exit_code = ExitCode.PROGRAM_FAILED


class Overdue(ProgramError):  # noqa: N818 - a noun reads better where it is raised
    """The scheduler has ended the job, for a limit of time that it keeps itself was over."""


class InfraError(TonyError):
    """Cluster, network, machine: trying again later may help."""

    exit_code = ExitCode.INFRASTRUCTURE


class ConnectionFailed(InfraError):  # noqa: N818 - a noun reads better where it is raised
    """The other side cannot be reached, or went away in the middle.

    Attributes:
        gone: True if nobody is there: the connection was refused, or the socket file does not exist. False if that
            cannot be known: a time-out, an unknown host, a connection that broke.
    """

    def __init__(self, message: str, *, gone: bool = False) -> None:
        self.gone = gone
        super().__init__(message)


class OverloadedError(InfraError):
    """This program has no thread free for what was asked, or the work takes longer than a request may."""


class SchedulerError(InfraError):
    """The scheduler refused, or gave no answer."""


class NoClusterError(SchedulerError):
    """There is no cluster that could be asked: nobody says which, or the one on this machine has ended."""


class UnrecordedJobError(SchedulerError):
    """A job that its scheduler knows, and of which there is no record to look at (yet)."""


class SchedulerLost(SchedulerError):  # noqa: N818 - a noun reads better where it is raised
    """The scheduler gives no answer any more, and the job cannot go on without it."""


class AttemptLost(SchedulerError):  # noqa: N818 - as above
    """The scheduler has given up an application master, without anybody having asked for that, and the job with it."""


class NotInCharge(SchedulerError):  # noqa: N818 - as above
    """A later application master has the job, or is to have it: this one leaves everything as it is, and goes."""


class StorageError(InfraError):
    """A file system refused: full, read-only, missing."""


class KilledError(TonyError):
    """Somebody killed the job."""

    exit_code = ExitCode.KILLED


class PlatformError(TonyError):
    """A bug of ours; please report it together with the event log."""

    exit_code = ExitCode.BUG


class InvalidTransition(PlatformError):  # noqa: N818 - a noun reads better where it is raised
    """The machine was asked for a move that its table lacks; `story` lists the last steps of the thing."""

    def __init__(self, message: str, story: Sequence[str] = ()) -> None:
        self.story = tuple(story)
        super().__init__("\n".join([message, *self.story]))


class ProtocolError(PlatformError):
    """The other side broke the rules of the wire.

    Attributes:
        code: stable word for programs: see `tony.protocol.error_codes`.
    """

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


class RecordError(PlatformError):
    """An event log or a job's record is not what it claims to be."""


class NewerRecordError(RecordError):
    """An event log or a job's record that a newer version wrote: no bug, but nothing that we could answer for."""

    exit_code = ExitCode.REFUSED
