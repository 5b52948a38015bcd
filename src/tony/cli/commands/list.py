"""`tony list`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tony import clock
from tony.cli.open_job import open_portal, portal_option
from tony.cli.options import Count, TimeParameter, WordParameter, home, json_option
from tony.cli.terminal.output import print_json, say, say_all, warn
from tony.cli.terminal.terminal_text import cut, find_columns, format_clock_time, format_table
from tony.control_characters import escape
from tony.jobs.job_ids import find_unique_suffix, list_job_ids
from tony.jobs.job_list import Filter, Jobs, list_ended_jobs, list_jobs
from tony.model.job_summary import JobHead
from tony.model.state_directory import Home
from tony.model.states import JobState
from tony.schedulers import registry
from tony.units import format_duration

if TYPE_CHECKING:
    from tony.jobs.portal_client.client import PortalClient

_HEADING = ("JOB", "NAME", "STATE", "TASKS", "SUBMITTED", "TOOK", "EXIT", "USER", "REASON")
#: Columns that are dropped when the terminal is too narrow, in this order: user, tasks, exit, took, submitted, name.
_EXPENDABLE = (7, 3, 6, 5, 4, 1)
#: Width of a name on a terminal; the other columns matter more.
_MAX_NAME_CHARACTERS = 30
#: Terminals narrower than this show only the end of a job id, as much of it as identifies the job.
_NARROW = 60
#: Default of -n with a portal, which may have a million jobs.
_PORTAL_LIMIT = 50


@click.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=WordParameter([state.value for state in JobState]),
    help="Only jobs in this state; may be repeated.",
)
@click.option("--name", help="Only jobs of this name; * and ? are wildcards.")
@click.option("--user", help="Only this user's jobs.")
@click.option(
    "--scheduler",
    metavar="NAME",
    callback=lambda context, parameter, value: value and _check_scheduler(value),
    help="Only jobs of this scheduler, including those submitted from other machines.",
)
@click.option("--since", type=TimeParameter(), help="Only jobs submitted since then: 2026-01-31, or 2h (ago).")
@click.option("--until", type=TimeParameter(), help="Only jobs submitted before then.")
@click.option("-n", "--limit", type=Count(1), help="Show at most N jobs (newest first).")
@portal_option
@json_option("Print a list of jobs as JSON.")
def command(
    states: tuple[str, ...],
    name: str | None,
    user: str | None,
    scheduler: str | None,
    since: float | None,
    until: float | None,
    limit: int | None,
    portal: str | None,
    as_json: bool,
) -> None:
    """List running and finished jobs, newest first."""
    job_filter = Filter(
        states=frozenset(JobState(state) for state in states) or None,
        name=name,
        user=user,
        scheduler=scheduler,
        since=since,
        until=until,
    )
    if portal is not None:
        with open_portal(portal) as portal_client:
            _print(_fetch_heads(portal_client, job_filter, limit), portal_client.address, job_filter, as_json)
        return
    place = home()
    jobs = list_ended_jobs(place, job_filter) or _query_jobs(place, job_filter)
    heads = jobs.heads[:limit]
    for problem in jobs.problems:
        warn(problem)
    _print(heads, str(place.jobs), job_filter, as_json)


def _print(heads: Sequence[JobHead], where: str, job_filter: Filter, as_json: bool) -> None:
    if as_json:
        print_json(list(heads))
    elif heads:
        _show(heads)
    else:
        scheduler = f" and of the scheduler {job_filter.scheduler}" if job_filter.scheduler else ""
        match = " match" if job_filter != Filter(scheduler=job_filter.scheduler) else ""
        say(f"no jobs in {where}{scheduler}{match}")


def _check_scheduler(scheduler: str) -> str:
    if scheduler not in registry.names():
        raise click.BadParameter(f"unknown scheduler {scheduler!r}; known: {', '.join(registry.names())}")
    return scheduler


def _query_jobs(place: Home, job_filter: Filter) -> Jobs:
    import asyncio  # late: not needed for jobs that have ended

    return asyncio.run(list_jobs(place, job_filter))


def _fetch_heads(portal: PortalClient, job_filter: Filter, limit: int | None) -> Sequence[JobHead]:
    """Return the matching jobs, newest first; without a limit the newest `_PORTAL_LIMIT`, with a warning."""
    words: dict[str, str] = {}
    for name, value in (("user", job_filter.user), ("scheduler", job_filter.scheduler)):
        if value is not None:
            words[name] = value
    for name, moment in (("since", job_filter.since), ("until", job_filter.until)):
        if moment is not None:
            words[name] = repr(moment)
    states = job_filter.states
    if states is not None and len(states) == 1:
        words["state"] = next(iter(states)).value

    def matches(head: JobHead) -> bool:
        return job_filter.matches(head) and (states is None or head.state in states)

    found = [*portal.iterate_jobs(words, matches, _PORTAL_LIMIT + 1 if limit is None else limit)]
    if limit is None and len(found) > _PORTAL_LIMIT:
        warn(f"only the newest {_PORTAL_LIMIT} are shown; use -n 1000 for more")
        return found[:_PORTAL_LIMIT]
    return found


def _show(heads: Sequence[JobHead]) -> None:
    columns = find_columns()
    longest_name: int | None = None
    names = {head.job: head.job for head in heads}
    if columns is not None:
        longest_name = _MAX_NAME_CHARACTERS
        if columns < _NARROW:
            ids = {*list_job_ids(home()), *names}
            names = {job: find_unique_suffix(job, ids) for job in names}
            others = max(map(len, names.values())) + max(len(_format_state(head)) for head in heads) + 4
            longest_name = min(_MAX_NAME_CHARACTERS, max(len("NAME"), columns - others))
    rows = [_HEADING, *(_format_row(head, names[head.job], longest_name) for head in heads)]
    if (columns or _NARROW) < _NARROW or not any(row[-1] for row in rows[1:]):
        rows = [row[:-1] for row in rows]
    say_all(format_table(rows, columns, _EXPENDABLE))


def _format_state(head: JobHead) -> str:
    return "running, stalled" if head.is_stalled else head.state.value


def _format_row(head: JobHead, job_id: str, longest_name: int | None) -> tuple[str, ...]:
    name = escape(head.name)
    until = head.ended if head.state.ended else clock.wall()
    return (
        job_id,
        name if longest_name is None else cut(name, longest_name),
        _format_state(head),
        "-" if head.tasks is None else str(head.tasks),
        format_clock_time(head.submitted),
        "-" if until is None else format_duration(max(0.0, until - head.submitted)),
        "-" if head.exit_code is None else str(head.exit_code),
        escape(head.user),
        escape(head.short_reason),
    )
