"""`tony notebook-submit`, the original's NotebookSubmitter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tony.cli.legacy_commands import RawCommand, run

if TYPE_CHECKING:
    from tony.config.legacy.flags import Flags
    from tony.jobs.job_follower import Viewer
    from tony.model.layout import Home

#: How long a notebook may run unless its settings say otherwise.
_DAY = "24h"
#: Seconds between two looks whether the server answers: at first, at most, and how much longer each one is.
_SOON, _LATER, _SLOWER = 0.1, 1.0, 1.3


@click.command("notebook-submit", cls=RawCommand, add_help_option=False)
def command(words: tuple[str, ...]) -> int:
    """Run a notebook on the cluster and forward its port to this machine.

    Or any other server that listens on $TB_PORT: as soon as it answers, a port of this machine leads to it. Exit code:
    0 the job succeeded, 255 anything else. Ctrl-C, SIGTERM and a closed terminal end the job.
    """
    about = (
        "Runs a server that listens on $TB_PORT, such as Jupyter, as a job on YARN, and opens\n"
        "a port here that leads to it. Answers 0 if the job succeeded, else 255."
    )
    return run("notebook-submit", about, words, _go)


def _go(flags: Flags) -> int:
    from tony.cli.submission import SubmitOptions, submit_and_follow
    from tony.config.load import load
    from tony.errors import UserError

    resolved = load(flags=flags, assumed={"job_timeout": _DAY}, overrides={"scheduler": "yarn"})
    if resolved.spec.tensorboard_task is None:
        raise UserError("no task of this job has a TB_PORT at which a notebook could listen; leave the instances away.")
    manner = SubmitOptions(detach=False, dry_run=False, as_json=False)
    return submit_and_follow(resolved, manner, tied=True, beside=_open)


async def _open(home: Home, job: str, view: Viewer) -> None:
    """Opens a port as soon as the server answers, and keeps it open."""
    import asyncio

    from tony.cli.browser import reached_by
    from tony.client.port_forward import open_proxy
    from tony.errors import TonyError
    from tony.history.job_record import record_of
    from tony.jobs.tunnel_client import answers

    task = record_of(home, job).spec.tensorboard_task
    assert task is not None
    pause = _SOON
    while not await answers(home.job(job), task, 0):
        await asyncio.sleep(pause)
        pause = min(_SLOWER * pause, _LATER)
    try:
        async with await open_proxy(home, job, str(task), 0, view.noticed) as proxy:
            view.noticed(f"the notebook is at http://{proxy.place}")
            for line in reached_by(proxy.place):
                view.noticed(line)
            await asyncio.Event().wait()
    except TonyError as error:  # the job has just ended, or no port is free here: the following tells, or goes on
        view.noticed(str(error))
