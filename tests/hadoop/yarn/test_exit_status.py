"""YARN's own exit statuses."""

from __future__ import annotations

from tony.hadoop.yarn.exit_status import NOT_THE_PROGRAM, YarnExitStatus, exit_status


def test_statuses() -> None:
    """What YARN says, and what a program says."""
    assert exit_status(-104) is YarnExitStatus.KILLED_EXCEEDED_PMEM
    assert [exit_status(status) for status in (0, 1, 137, -1, -110)] == [None] * 5
    assert YarnExitStatus.PREEMPTED in NOT_THE_PROGRAM
    assert YarnExitStatus.KILLED_EXCEEDED_PMEM not in NOT_THE_PROGRAM
