"""The executor's event loop, from its beginning to its exit code."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable

from tony.errors import ExitCode
from tony.executor.executor import Executor
from tony.executor.link import Connect, reaching
from tony.executor.watchdog import Watchdog
from tony.protocol.launch import LaunchContext

log = logging.getLogger(__name__)


def live(context: LaunchContext, watchdog: Watchdog, wrap: Callable[[Connect], Connect]) -> int:
    """Runs an executor to its end. The watchdog sweeps if this function is left in any other way."""
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
    try:
        return asyncio.run(Executor(context, dict(os.environ), watchdog, wrap(reaching(context))).run())
    except Exception:
        log.exception("the executor broke: please report this")
        return ExitCode.BUG
