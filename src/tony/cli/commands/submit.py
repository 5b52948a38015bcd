"""`tony submit JOB_FILE`."""

from __future__ import annotations

import click

from tony.cli.submission import load_job_file, setting_options, submit_and_follow, submit_options


@click.command("submit")
@click.argument("job_file", type=click.Path(readable=False))
@setting_options
@submit_options
def command(
    job_file: str,
    scheduler: str | None,
    sets: tuple[str, ...],
    params: tuple[str, ...],
    detach: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Submit JOB_FILE (TOML, YAML, or XML of LinkedIn TonY) and follow the job to its end.

    Exit code: 0 the job succeeded, 1 its program failed, 2 refused, 3 infrastructure, 4 killed, 70 a bug in tony.
    Ctrl-C asks whether to stop the job, and without a terminal stops it; see on_interrupt in `tony settings --all`.
    """
    resolved = load_job_file(job_file, scheduler, sets, params)
    return submit_and_follow(resolved, detach=detach, dry_run=dry_run, as_json=as_json)
