"""Why sessions open, programs are stopped, and tasks are as they are. `core/sentences.py` words them."""

from __future__ import annotations

from tony.model.actor import Actor
from tony.model.failure import Failure
from tony.model.program_exit import ExitStatus
from tony.model.value_class import value_class


@value_class
class Success:
    """The job has succeeded; `rule` says by which rule."""

    rule: str


@value_class
class RestartAfterFailure:
    """A task or the gang restarts after a failure.

    Attributes:
        decision: why the policy restarts.
    """

    failure: Failure
    decision: str


@value_class
class RestartOnRequest:
    """The gang restarts because a user requested it."""

    actor: Actor


#: Why a session is replaced by the next one.
RestartReason = RestartAfterFailure | RestartOnRequest
#: Why a program is stopped.
StopReason = RestartReason | Failure | Success


@value_class
class ContainerLost:
    """The container of a task ended before its program could start or report its end.

    Attributes:
        cause: one sentence, from the scheduler or from the AM.
    """

    cause: str


@value_class
class GangReleased:
    """The task's container was released to other jobs, until it is requested again."""


@value_class
class LeftOutForLackOfContainers:
    """The session starts without the task, which got no container within a limit in seconds.

    Attributes:
        setting: the setting of the limit.
    """

    session: int
    limit: float
    setting: str


@value_class
class LeftOutForOtherRoles:
    """The session starts without the task, whose container other roles needed.

    Attributes:
        minimum: number of tasks that its role keeps.
    """

    session: int
    minimum: int


@value_class
class MissingExports:
    """The program of the task succeeded without exporting all that it should.

    Attributes:
        variables: those that are missing, each with the text that its output lacked.
    """

    status: ExitStatus
    variables: tuple[tuple[str, str], ...]


@value_class
class TaskFailed:
    """A limit of the task was exceeded, or its executor is lost."""

    failure: Failure


@value_class
class ProgramUnreachable:
    """The program may still run where its container cannot be reached.

    Attributes:
        seconds: for how long at most.
    """

    failure: Failure
    seconds: int


@value_class
class LaterAttempt:
    """The task runs again, after an earlier task attempt in this session.

    Attributes:
        number: of this task attempt.
        before: the note of the earlier one.
    """

    number: int
    before: TaskNote | None


#: What users should know about a task; the status is that of its program.
TaskNote = (
    ContainerLost
    | GangReleased
    | LeftOutForLackOfContainers
    | LeftOutForOtherRoles
    | ExitStatus
    | MissingExports
    | TaskFailed
    | ProgramUnreachable
    | RestartAfterFailure
    | LaterAttempt
)
