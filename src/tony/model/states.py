"""The states of jobs and tasks."""

from __future__ import annotations

from enum import Enum


class JobState(Enum):
    """The state of a job."""

    SUBMITTED = "submitted"  #: set by the client: the id exists, nothing runs yet
    QUEUED = "queued"  #: the scheduler has no resources yet
    STARTING = "starting"  #: containers start, programs do not run yet
    RUNNING = "running"  #: the gang's programs were started
    RESTARTING = "restarting"  #: a session failed, the next one is being prepared
    STOPPING = "stopping"  #: the outcome is known, remaining tasks are being stopped
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    KILLED = "killed"

    @property
    def ended(self) -> bool:
        """Return True for the three final states, which never change again."""
        return self in ENDED_JOB_STATES


ENDED_JOB_STATES = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.KILLED})


class TaskState(Enum):
    """The state of a task."""

    # The state machine counts tasks by state on every event: an enum's own hash, of the name, is five times as slow.
    __hash__ = object.__hash__

    PENDING = "pending"  #: its role may not start yet
    REQUESTED = "requested"  #: a container was requested
    STARTING = "starting"  #: the container is there, its executor has not registered for this session
    REGISTERED = "registered"  #: waiting for the rest of the gang
    RUNNING = "running"  #: the start command was sent
    STOPPING = "stopping"  #: the stop command was sent
    SUCCEEDED = "succeeded"  #: exit code 0
    FAILED = "failed"
    STOPPED = "stopped"  #: stopped by tony
    LOST = "lost"  #: its container was lost or stopped responding


#: The program may be running.
LIVING_TASK_STATES = frozenset({TaskState.RUNNING, TaskState.STOPPING})
ENDED_TASK_STATES = frozenset({TaskState.SUCCEEDED, TaskState.FAILED, TaskState.STOPPED, TaskState.LOST})
