"""The executor's event loop, from its beginning to its exit code."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable

from tony.bootstrap import settle
from tony.errors import ExitCode
from tony.executor.executor import Executor
from tony.executor.link import Connect, Reach
from tony.executor.pen import Pen, PenHandler
from tony.executor.watchdog import Watchdog
from tony.protocol.launch import LaunchContext

#: Seconds that the last lines of our log may take to reach the disk.
_LAST_LINES = 5.0

log = logging.getLogger(__name__)


def live(context: LaunchContext, watchdog: Watchdog, wrap: Callable[[Connect], Connect]) -> int:
    """Runs an executor to its end. The watchdog sweeps if this function is left in any other way."""
    settle()
    task = context.task
    log.info(
        "executor of %s:%d of job %s, container %s, attempt %d, session %d",
        task.role,
        task.index,
        task.job_id,
        task.container,
        task.attempt,
        task.session,
    )
    pen = Pen()
    root = logging.getLogger()
    for handler in root.handlers[:]:
        root.removeHandler(handler)
        root.addHandler(PenHandler(pen, handler))
    try:
        reach = Reach(context)
        return asyncio.run(Executor(context, dict(os.environ), watchdog, pen, reach, wrap(reach)).run())
    except Exception:
        log.exception("the executor broke: please report this")
        return ExitCode.BUG
    finally:
        pen.close(_LAST_LINES)
