"""`tony submit JOB_FILE`."""

from __future__ import annotations

from typing import Any

import click

from tony.cli.submission import SubmitOptions, setting_options, submit_and_follow, submit_options
from tony.config.load import load


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
    Ctrl-C stops the job; a second Ctrl-C kills it.
    """
    overrides: dict[str, Any] = {"scheduler": scheduler} if scheduler is not None else {}
    resolved = load(job_file, sets=sets, params=params, overrides=overrides, overrides_source="--scheduler")
    return submit_and_follow(resolved, SubmitOptions(detach=detach, dry_run=dry_run, as_json=as_json))
