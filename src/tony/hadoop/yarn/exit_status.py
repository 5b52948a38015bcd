"""The exit statuses of containers that are YARN's own, and no exit code of a program's.

Facts: org.apache.hadoop.yarn.api.records.ContainerExitStatus. Everything from 0 on is what the container's command
ended with, as a shell says it: 137 is SIGKILL, 143 SIGTERM, and YARN itself sends both.
"""

from __future__ import annotations

from enum import IntEnum


class YarnExitStatus(IntEnum):
    """Why a container ended, if not by itself."""

    #: It has not ended; or it was never started, for its files could not be fetched.
    INVALID = -1000
    #: Released by its master, left by a dead attempt, or on a node that was lost.
    ABORTED = -100
    #: The node's disks failed.
    DISKS_FAILED = -101
    #: The scheduler wanted it back for others.
    PREEMPTED = -102
    #: It had more virtual memory than the node allows for what it asked for.
    KILLED_EXCEEDED_VMEM = -103
    #: It had more memory than it asked for.
    KILLED_EXCEEDED_PMEM = -104
    #: Stopped by its master.
    KILLED_BY_APPMASTER = -105
    #: The ResourceManager wanted it gone: the node came back after being lost, the attempt is over...
    KILLED_BY_RESOURCEMANAGER = -106
    #: Its application was over.
    KILLED_AFTER_APP_COMPLETION = -107
    #: The node's own scheduler wanted the room (opportunistic containers).
    KILLED_BY_CONTAINER_SCHEDULER = -108
    #: It wrote more logs than the node allows.
    KILLED_FOR_EXCESS_LOGS = -109


#: Ends that say nothing about the program: the same command may well succeed elsewhere.
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
    """What YARN says with a status, or None if it is a program's, or one that we do not know."""
    try:
        return YarnExitStatus(status)
    except ValueError:
        return None
