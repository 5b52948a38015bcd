"""`tony notebook-submit`: NotebookSubmitter of LinkedIn TonY."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tony.cli.legacy_command_runner import legacy_command
from tony.cli.submission import submit_and_follow
from tony.cli.terminal.display import format_ssh_hint
from tony.client.port_forward import open_proxy
from tony.config.legacy import TO_CLUSTER
from tony.config.legacy.flags import Flags
from tony.config.load import load
from tony.errors import TonyError, UserError
from tony.history.job_record import record_of
from tony.jobs.am_client import is_answering
from tony.retry import Backoff

if TYPE_CHECKING:
    from tony.jobs.job_follower import Viewer
    from tony.model.layout import Home

#: Default of job_timeout.
_DEFAULT_JOB_TIMEOUT = "24h"
#: Between two attempts to connect to the server.
_BACKOFF = Backoff(first=0.1, factor=1.3, most=1.0)


@legacy_command("notebook-submit")
def command(flags: Flags) -> int:
    """Run a notebook on the cluster and forward its port to this machine.

    Works for every server that listens on $TB_PORT: its port is forwarded as soon as it accepts connections. Exit code:
    0 the job succeeded, 255 anything else. Ctrl-C, SIGTERM and a closed terminal stop the job.
    """
    resolved = load(flags=flags, assumed={"job_timeout": _DEFAULT_JOB_TIMEOUT}, overrides=TO_CLUSTER)
    if resolved.spec.tensorboard_task is None:
        raise UserError("no task of this job has a TB_PORT for a notebook; remove tony.<type>.instances")
    return submit_and_follow(resolved, tied=True, companion=_forward_port)


async def _forward_port(home: Home, job: str, view: Viewer) -> None:
    """Forward a port as soon as the server accepts connections, until cancelled."""
    task = record_of(home, job).spec.tensorboard_task
    assert task is not None
    pauses = iter(_BACKOFF)
    while not await is_answering(home.job(job), task, 0):
        await asyncio.sleep(next(pauses))
    try:
        async with await open_proxy(home, job, str(task), 0, view.on_notice) as proxy:
            view.on_notice(f"the notebook is at http://{proxy.place}")
            for line in format_ssh_hint(proxy.place):
                view.on_notice(line)
            await asyncio.Event().wait()
    except TonyError as error:  # the job has just ended, or no local port is free: following the job continues
        view.on_notice(str(error))
