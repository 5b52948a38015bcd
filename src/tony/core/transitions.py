"""The transition tables of tasks and of the job. The diagrams in the docs are generated from them.

Two rules. Every change of a state goes through `find_next_task_state` or `find_next_job_state`. A transition that is
not in a table raises `InvalidTransitionError` and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from tony.errors import InvalidTransitionError
from tony.model.ids import TaskId
from tony.model.states import JobState, TaskState


class TaskMove(Enum):
    """The transitions of a task."""

    __hash__ = object.__hash__  # as of `TaskState`

    REQUEST = "request"  #: a container is requested
    PLACE = "place"  #: a container was granted, its executor is launched
    RENEW = "renew"  #: the executor of an earlier session prepares for this one
    REGISTER = "register"  #: the executor has its ports
    REPLACE = "replace"  #: its container is no longer usable: request another, in the same session
    START = "start"  #: the executor is asked to start the program
    STOP = "stop"  #: the program is asked to stop
    RETRY = "retry"  #: the program ended and restarts, alone, where it ran
    SUCCEED = "succeed"  #: exit code 0
    FAIL = "fail"  #: it failed, or exceeded one of its limits
    LOSE = "lose"  #: its container ended or fell silent while the program ran
    END = "end"  #: stopped by the AM
    RESET = "reset"  #: a new session begins


class JobMove(Enum):
    """The transitions of a job."""

    BEGIN = "begin"  #: an AM attempt starts
    QUEUE = "queue"  #: the scheduler has no room
    ADMIT = "admit"  #: the scheduler has room
    RUN = "run"  #: the first programs of the session start
    RESTART = "restart"  #: the session failed, another one follows
    OPEN = "open"  #: the next session begins
    STOP = "stop"  #: the result is decided
    SUCCEED = "succeed"
    FAIL = "fail"
    KILL = "kill"


_T = TaskState
_J = JobState
_PREPARING = (_T.REQUESTED, _T.STARTING, _T.REGISTERED)
_ENDED = (_T.SUCCEEDED, _T.FAILED, _T.STOPPED, _T.LOST)
_UNDECIDED_JOBS = (_J.QUEUED, _J.STARTING, _J.RUNNING, _J.RESTARTING)

TASK_TABLE: Mapping[tuple[TaskState, TaskMove], TaskState] = {
    (_T.PENDING, TaskMove.REQUEST): _T.REQUESTED,
    (_T.REQUESTED, TaskMove.PLACE): _T.STARTING,
    (_T.PENDING, TaskMove.RENEW): _T.STARTING,
    (_T.STARTING, TaskMove.REGISTER): _T.REGISTERED,
    (_T.STARTING, TaskMove.REPLACE): _T.REQUESTED,
    **{(state, TaskMove.REPLACE): _T.REQUESTED for state in (_T.REGISTERED, _T.RUNNING, _T.STOPPING)},
    **{(state, TaskMove.RETRY): _T.REGISTERED for state in (_T.RUNNING, _T.STOPPING)},
    (_T.REGISTERED, TaskMove.START): _T.RUNNING,
    (_T.RUNNING, TaskMove.STOP): _T.STOPPING,
    **{(state, TaskMove.SUCCEED): _T.SUCCEEDED for state in (_T.RUNNING, _T.STOPPING)},
    **{(state, TaskMove.FAIL): _T.FAILED for state in (_T.STARTING, _T.REGISTERED, _T.RUNNING, _T.STOPPING)},
    **{(state, TaskMove.LOSE): _T.LOST for state in (_T.RUNNING, _T.STOPPING)},
    **{(state, TaskMove.END): _T.STOPPED for state in (_T.PENDING, *_PREPARING, _T.STOPPING)},
    **{(state, TaskMove.RESET): _T.PENDING for state in (*_PREPARING, *_ENDED)},
}

JOB_TABLE: Mapping[tuple[JobState, JobMove], JobState] = {
    (_J.SUBMITTED, JobMove.BEGIN): _J.STARTING,
    (_J.STARTING, JobMove.QUEUE): _J.QUEUED,
    (_J.QUEUED, JobMove.ADMIT): _J.STARTING,
    (_J.STARTING, JobMove.RUN): _J.RUNNING,
    (_J.QUEUED, JobMove.RUN): _J.RUNNING,
    **{(state, JobMove.RESTART): _J.RESTARTING for state in (_J.STARTING, _J.QUEUED, _J.RUNNING)},
    (_J.RESTARTING, JobMove.OPEN): _J.STARTING,
    **{(state, JobMove.STOP): _J.STOPPING for state in _UNDECIDED_JOBS},
    (_J.STOPPING, JobMove.SUCCEED): _J.SUCCEEDED,
    (_J.STOPPING, JobMove.FAIL): _J.FAILED,
    (_J.STOPPING, JobMove.KILL): _J.KILLED,
}


def find_next_task_state(state: TaskState, move: TaskMove, task: TaskId) -> TaskState:
    """Return the state to which `move` leads a task.

    Raises:
        InvalidTransitionError: the table has no such transition.
    """
    try:
        return TASK_TABLE[state, move]
    except KeyError:
        raise InvalidTransitionError(f"{task} is {state.value}: cannot {move.value}") from None


def find_next_job_state(state: JobState, move: JobMove) -> JobState:
    """Return the state to which `move` leads the job.

    Raises:
        InvalidTransitionError: the table has no such transition.
    """
    try:
        return JOB_TABLE[state, move]
    except KeyError:
        raise InvalidTransitionError(f"the job is {state.value}: cannot {move.value}") from None
