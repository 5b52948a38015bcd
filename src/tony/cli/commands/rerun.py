"""`tony rerun JOB`."""

from __future__ import annotations

import click

from tony.cli.options import job_argument, job_id
from tony.cli.submission import changing_options, parse_variable, submit_and_follow, submit_options
from tony.cli.terminal.output import warn


@click.command("rerun")
@job_argument
@click.option(
    "--env",
    "variables",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Value of an environment variable of the job, such as a secret; without VALUE, that of your shell.",
)
@click.option("--restage", is_flag=True, help="Stage source and files as they are now, from their original paths.")
@changing_options
@submit_options
def command(
    job: str,
    variables: tuple[str, ...],
    restage: bool,
    sets: tuple[str, ...],
    params: tuple[str, ...],
    detach: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Submit JOB again: its resolved settings, and the files that it has staged.

    Later changes of the job file or of the source have no effect; with --restage, source and files are staged as they
    are now. Secrets are not kept after the end of a job: give them with --env, --param or --set. Exit codes and Ctrl-C
    as with `tony submit`.
    """
    # late: help does not wait for it
    from tony.client.rerun import build_rerun

    home, name = job_id(job)
    rerun = build_rerun(
        home, name, sets=sets, params=params, variables=dict(map(parse_variable, variables)), restage=restage
    )
    warn(rerun.notice)
    return submit_and_follow(
        rerun.resolved, detach=detach, dry_run=dry_run, as_json=as_json, staged_copy=rerun.staged_copy
    )
