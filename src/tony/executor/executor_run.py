"""One run of an executor: its event loop, with secrets masked in its own log, from its start to its exit code."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable

from tony import clock
from tony.errors import ExitCode
from tony.executor.control.am_connection import Connect, Reach
from tony.executor.executor import Executor
from tony.executor.output.writer_thread import WriterThread, WriterThreadHandler
from tony.executor.program.program_environment import find_task_secrets
from tony.executor.program.watchdog import Watchdog
from tony.isolated_interpreter import settle
from tony.model.masking import SecretMask
from tony.protocol.launch import LaunchContext

#: Seconds that the last lines of the executor's log may take to reach the disk.
_LAST_LINES_TIMEOUT_SECONDS = 5.0

log = logging.getLogger(__name__)


class _MaskingFormatter(logging.Formatter):
    """Formats lines of the executor's own log without the secrets of the task."""

    def __init__(self, mask: SecretMask) -> None:
        super().__init__(clock.LOG_LINE)
        self._mask = mask

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, or several with a traceback."""
        return self._mask.hide_text(super().format(record))


def run_executor(context: LaunchContext, watchdog: Watchdog, wrap: Callable[[Connect], Connect]) -> int:
    """Run an executor until it exits. If this function is left in any other way, the watchdog cleans up."""
    settle()
    task = context.task
    log.info(
        "executor of %s:%d of job %s, container %s, AM attempt %d, session %d",
        task.role,
        task.index,
        task.job_id,
        task.container,
        task.attempt,
        task.session,
    )
    environment = dict(os.environ)
    mask = SecretMask(find_task_secrets(task, environment))
    writer = WriterThread()
    root = logging.getLogger()
    for handler in root.handlers[:]:
        root.removeHandler(handler)
        if mask:
            handler.setFormatter(_MaskingFormatter(mask))
        root.addHandler(WriterThreadHandler(writer, handler))
    try:
        reach = Reach(context)
        return asyncio.run(Executor(context, environment, watchdog, writer, reach, wrap(reach), mask).run())
    except Exception:
        log.exception("the executor failed: please report this")
        return ExitCode.BUG
    finally:
        writer.close(_LAST_LINES_TIMEOUT_SECONDS)
