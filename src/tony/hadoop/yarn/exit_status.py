"""YARN's own container exit statuses, as opposed to exit codes of the program.

Facts: org.apache.hadoop.yarn.api.records.ContainerExitStatus. A status of 0 or more is the exit code of the
container's command, in shell notation: 137 is SIGKILL, 143 SIGTERM; YARN itself sends both.
"""

from __future__ import annotations

from enum import IntEnum


class YarnExitStatus(IntEnum):
    """The reason why YARN ended a container."""

    #: Not ended yet, or never started because its files could not be fetched.
    INVALID = -1000
    #: Released by its AM, left by a dead attempt, or on a node that was lost.
    ABORTED = -100
    #: The node's disks failed.
    DISKS_FAILED = -101
    #: Preempted by the scheduler.
    PREEMPTED = -102
    #: Exceeded the virtual memory that the node allows for the requested memory.
    KILLED_EXCEEDED_VMEM = -103
    #: Exceeded the requested physical memory.
    KILLED_EXCEEDED_PMEM = -104
    #: Stopped by its AM.
    KILLED_BY_APPMASTER = -105
    #: Killed by the ResourceManager, for example when a lost node came back or the attempt ended.
    KILLED_BY_RESOURCEMANAGER = -106
    #: The application had ended.
    KILLED_AFTER_APP_COMPLETION = -107
    #: Killed by the node's container scheduler to make room (opportunistic containers).
    KILLED_BY_CONTAINER_SCHEDULER = -108
    #: Wrote more logs than the node allows.
    KILLED_FOR_EXCESS_LOGS = -109


#: Statuses not caused by the program: the same command may succeed elsewhere.
NOT_THE_PROGRAM = frozenset(
    {
        YarnExitStatus.ABORTED,
        YarnExitStatus.DISKS_FAILED,
        YarnExitStatus.PREEMPTED,
        YarnExitStatus.KILLED_BY_RESOURCEMANAGER,
        YarnExitStatus.KILLED_BY_CONTAINER_SCHEDULER,
    }
)


def exit_status(status: int) -> YarnExitStatus | None:
    """Return the YARN status, or None if it is a program's exit code or unknown."""
    try:
        return YarnExitStatus(status)
    except ValueError:
        return None
