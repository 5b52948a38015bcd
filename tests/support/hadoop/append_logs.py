"""Waiting for the bytes of an append log."""

from __future__ import annotations

import time

from tony.hadoop.hdfs.append_log import AppendLog


def flush(log: AppendLog, timeout: float) -> bool:
    """Send all that is written by now, and wait until it is durable; return False after `timeout` seconds.

    Raises:
        HadoopError: the log gave up.
    """
    log.hurry()
    goal, deadline = log._written, time.monotonic() + timeout
    while log._durable < goal and log.error is None and time.monotonic() < deadline:
        time.sleep(0.002)
    if log._durable < goal and log.error is not None:
        raise log.error
    return log._durable >= goal
