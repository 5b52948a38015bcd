"""`tony validate JOB_FILE`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import click

from tony.cli.options import home, json_option
from tony.cli.submission import load_job_file, setting_options
from tony.cli.terminal.output import print_json, say, say_all, to_plain_value
from tony.cli.terminal.terminal_text import find_columns, format_table
from tony.client.submission import check, find_unsupported_settings
from tony.config.load import Resolved
from tony.config.resolved_table import list_resolved_rows
from tony.control_characters import escape
from tony.errors import ConfigError, ExitCode
from tony.model.job_spec import Role
from tony.model.setting_choices import RoleKind


@click.command("validate")
@click.argument("job_file", type=click.Path(readable=False))
@click.option("--resolved", "show_all", is_flag=True, help="Print every value and where it was set.")
@setting_options
@json_option("Print problems, or with --resolved every value, as JSON.")
def command(
    job_file: str,
    show_all: bool,
    scheduler: str | None,
    sets: tuple[str, ...],
    params: tuple[str, ...],
    as_json: bool,
) -> int:
    """Check JOB_FILE as `submit` would, without running it.

    Shows all errors at once. The exit code is 0 if the file is valid, else 2.
    """
    try:
        resolved = load_job_file(job_file, scheduler, sets, params)
        submitter = check(resolved, home())
    except ConfigError as error:
        if not as_json:
            raise ConfigError(error.problems, checked_file=job_file) from error
        print_json({"valid": False, "problems": list(error.problems)})
        return ExitCode.REFUSED
    unsupported = find_unsupported_settings(resolved.spec, submitter.capabilities)
    _show(job_file, resolved, [*submitter.notices(resolved.spec), *unsupported], show_all, as_json)
    return ExitCode.SUCCEEDED


def _describe_role(name: str, role: Role) -> str:
    """Return `worker 2`, or `ps 1 (untracked)` if the job does not wait for the role."""
    kind = "" if role.kind is RoleKind.TRACKED else f" ({role.kind.value})"
    return f"{name} {role.task_count_text}{kind}"


def _show(job_file: str, resolved: Resolved, notices: Sequence[str], show_all: bool, as_json: bool) -> None:
    if as_json:
        settings = [{**asdict(row), "value": to_plain_value(row.value)} for row in list_resolved_rows(resolved)]
        facts = {"valid": True, "problems": [], "notes": list(resolved.notes), "notices": list(notices)}
        print_json({**facts, "settings": settings if show_all else None})
    elif show_all:
        rows = [(escape(row.key), escape(row.value), escape(row.source)) for row in list_resolved_rows(resolved)]
        say_all(format_table([("KEY", "VALUE", "SET IN"), *rows], find_columns()))
    else:
        spec = resolved.spec
        roles = ", ".join(_describe_role(name, role) for name, role in spec.effective_roles.items())
        say(f"{job_file} is valid: job {spec.name}, framework {spec.framework}, on {spec.scheduler}; {roles}")
    if not as_json:
        for note in [*resolved.notes, *notices]:
            say(f"note: {note}")
