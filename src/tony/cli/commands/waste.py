"""`tony waste`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tony import clock
from tony.advice.facts_loader import read_run
from tony.advice.wasted_hours import compute_unused, sum_by_week
from tony.cli.options import TimeParameter, home, json_option
from tony.cli.terminal.output import print_json, say, say_all, warn
from tony.cli.terminal.terminal_text import find_columns, format_clock_time, format_table
from tony.control_characters import escape
from tony.errors import TonyError
from tony.history.directory_scan import scan
from tony.units import format_count, format_number, format_share

if TYPE_CHECKING:
    from tony.advice.wasted_hours import Hours, WeekOfWaste

_HEADING = ("WEEK", "USER", "JOBS", "GPU-HOURS", "WASTED", "GB-HOURS", "WASTED", "MOST FOR", "WORST")
#: Columns that are dropped when the terminal is too narrow, in this order: most for, worst, jobs.
_EXPENDABLE = (7, 8, 2)
#: Default of --since: four weeks.
_DEFAULT_PERIOD_SECONDS = 28 * 86400.0


@click.command("waste")
@click.option("--since", type=TimeParameter(), help="Only jobs that ended since then: 2026-01-31, or 12h (ago).")
@click.option("--user", help="Only this user's jobs.")
@json_option("Print a list of weeks as JSON.")
def command(since: float | None, user: str | None, as_json: bool) -> None:
    """Report reserved but unused GPU- and GB-hours of the last four weeks, by user and week.

    Counts memory beyond the highest peak and its headroom, GPUs that never computed, and everything reserved while lost
    work was recomputed, tasks restarted, or programs had exited. `tony advise JOB` recommends what to change.
    """
    since = clock.wall() - _DEFAULT_PERIOD_SECONDS if since is None else since
    weeks, unknown = _compute_weeks(since, user)
    if as_json:
        print_json(list(weeks))
    elif weeks:
        say_all(format_table([_HEADING, *map(_format_row, weeks)], find_columns(), _EXPENDABLE))
    else:
        say(f"no jobs{f' of {escape(user)}' if user else ''} have ended since {format_clock_time(since)}")
    if unknown:
        warn(f"not included: {format_count(unknown, 'job')} without an event log")


def _compute_weeks(since: float, user: str | None) -> tuple[Sequence[WeekOfWaste], int]:
    """Return the weeks, and the number of jobs without an event log."""
    place, found, unknown = home(), [], 0
    for head in scan(place).ended:
        if (head.ended or head.submitted) < since or user not in (None, head.user):
            continue
        try:
            found.append(compute_unused(read_run(place.job(head.job))))
        except TonyError:
            unknown += 1
    return sum_by_week(found), unknown


def _format_row(week: WeekOfWaste) -> tuple[str, ...]:
    most = max(week.parts, key=lambda name: _compute_weight(week.parts[name]), default="-")
    return (
        week.week,
        escape(week.user),
        str(week.jobs),
        format_number(week.held.gpu_hours),
        _format_part(week.wasted.gpu_hours, week.held.gpu_hours),
        format_number(week.held.gb_hours),
        _format_part(week.wasted.gb_hours, week.held.gb_hours),
        most,
        week.worst[0] if week.worst else "-",
    )


def _format_part(wasted: float, held: float) -> str:
    return f"{format_number(wasted)} ({format_share(wasted / held)})" if held else "-"


def _compute_weight(hours: Hours) -> tuple[float, float]:
    return hours.gpu_hours, hours.gb_hours
