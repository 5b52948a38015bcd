"""`tony doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from tony.cli.options import home, json_option
from tony.cli.terminal.output import print_json, say_all
from tony.errors import ExitCode

if TYPE_CHECKING:
    from tony.model.health_check import HealthCheck

_NAME_COLUMNS = 16
_STATE_COLUMNS = 8


@click.command("doctor")
@json_option()
def command(as_json: bool) -> int:
    """Check what jobs need on this machine and on the configured cluster.

    Each line says whether something is there (ok), missing or unknown; below it, what does not work without it and what
    to do. Exit code: 0, or 3 if something is missing without which jobs fail.
    """
    # late: help does not wait for it
    from tony.jobs.health_checks import check_health

    checks = []
    for check in check_health(home()):
        checks.append(check)
        if not as_json:
            say_all(_format_check(check))
    if as_json:
        print_json({"checks": checks, "broken": [check.name for check in checks if check.is_broken]})
    return ExitCode.INFRASTRUCTURE if any(check.is_broken for check in checks) else ExitCode.SUCCEEDED


def _format_check(check: HealthCheck) -> Iterator[str]:
    yield f"{check.state.value:<{_STATE_COLUMNS}}{check.name:<{_NAME_COLUMNS}} {check.detail}"
    indent = " " * _STATE_COLUMNS
    if check.cost:
        yield f"{indent}{'Effect' if not check.is_broken else 'Required'}: {check.cost}"
    if check.remedy:
        yield f"{indent}What to do: {check.remedy}"
