"""`tony purge` and `tony pin`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from tony.cli.options import Count, NumberType, home, job_argument, job_id, json_option
from tony.cli.terminal.output import print_json, say, say_all, warn
from tony.cli.terminal.terminal_text import find_columns, format_clock_time, format_table
from tony.control_characters import escape
from tony.errors import TonyError, UserError, join_lines
from tony.jobs.state_dir import get_user_name
from tony.portal.histories import retention
from tony.portal.histories.history_locations import is_own_location, open_location
from tony.portal.histories.retention import RetentionRules, carry_out, plan
from tony.units import format_count, format_size, parse_duration, parse_size

if TYPE_CHECKING:
    from tony.portal.histories.retention import RemovedRecord, RetentionPlan
    from tony.storage.stores.store_interface import FileStore

_HEADING = ("JOB", "USER", "ENDED", "SIZE", "WHY")


class _Quantity(NumberType):
    """A number with a unit, such as `90d` or `100g`."""

    def __init__(self, name: str, parse: Callable[[str], float]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return self._parse(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)


@click.command("purge")
@click.option(
    "--older-than", "age", type=_Quantity("duration", parse_duration), help="Jobs that ended longer ago than this: 90d."
)
@click.option("--keep", "jobs", type=Count(0), help="All but the newest N jobs of each user.")
@click.option(
    "--keep-size",
    "size",
    type=_Quantity("size", parse_size),
    help="The oldest jobs of each user beyond this total size: 100g.",
)
@click.option("--user", default="", help="Only this user's jobs.")
@click.option(
    "--history",
    metavar="LOCATION",
    default="",
    help="History to purge: a folder, hdfs://..., s3://... [default: your own].",
)
@click.option(
    "--to", metavar="LOCATION", default="", help="Move the job directories there, by date, instead of deleting them."
)
@click.option("--apply", is_flag=True, help="Delete or move; without this, only list the jobs.")
@json_option()
def purge(
    age: float | None,
    jobs: int | None,
    size: int | None,
    user: str,
    history: str,
    to: str,
    apply: bool,
    as_json: bool,
) -> None:
    """Delete or move the history of old jobs; without --apply, list them only.

    Jobs that have not ended, or within the last ten minutes, are kept, and so are pinned ones (see `tony pin`).
    """
    if age is None and jobs is None and size is None:
        raise UserError("specify which jobs to delete: --older-than 90d, --keep 1000 or --keep-size 100g")
    place = home()
    store = open_location(history or str(place.path), place, os.environ)
    target = open_location(to, place, os.environ) if to else None
    own = is_own_location(store, place)
    found = plan(store, RetentionRules(age=age, jobs=jobs, size=size, user=user), own=own)
    removed = _carry_out(store, found.going, target, own=own) if apply else None
    if as_json:
        print_json(_build_json(found, removed))
        return
    _show(store, found, removed, to)


def _carry_out(
    store: FileStore, going: Sequence[RemovedRecord], target: FileStore | None, *, own: bool
) -> list[RemovedRecord]:
    """Delete or move the jobs; warn about those that fail and continue. Return those that were removed."""
    removed = []
    for removal in going:
        try:
            if carry_out(store, removal, target, own=own):
                removed.append(removal)
        except TonyError as error:
            warn(f"{removal.record.head.job} was kept: {join_lines(error)}")
    return removed


def _show(store: FileStore, found: RetentionPlan, removed: list[RemovedRecord] | None, to: str) -> None:
    for job, why in sorted(found.problems.items()):
        warn(f"{job}: {why}")
    rows = [_format_row(removal) for removal in (found.going if removed is None else removed)]
    if rows:
        say_all(format_table([_HEADING, *rows], find_columns(), (1, 2)))
        say()
    kept = _describe_kept(found)
    if removed is None:
        verb = f"would move to {to}" if to else "would be deleted"
        free = f", {format_size(found.size)}" if found.going else ""
        say(f"{format_count(len(found.going), 'job')} of {store.address} {verb}{free}; {kept}.")
    else:
        size = format_size(sum(removal.record.size for removal in removed))
        done = f"moved to {to}" if to else "deleted"
        say(f"{format_count(len(removed), 'job')} of {store.address} {done}, {size}; {kept}.")
    if removed is None and found.going:
        say("Nothing was changed: add --apply.")
    elif found.stays:
        say("Jobs are always kept for ten minutes after their end.")


def _describe_kept(found: RetentionPlan) -> str:
    parts = [f"{found.pinned} pinned"] if found.pinned else []
    parts += [f"{found.unended} not ended"] if found.unended else []
    parts += [f"{found.damaged} damaged, for you to delete"] if found.damaged else []
    details = f" ({', '.join(parts)})" if parts else ""
    return f"{format_count(found.stays, 'job')} kept{details}, {format_size(found.stays_size)}"


def _format_row(going: RemovedRecord) -> tuple[str, ...]:
    head = going.record.head
    ended = format_clock_time(head.ended) if head.ended is not None else "-"
    return head.job, escape(head.user), ended, format_size(going.record.size), escape(going.why)


def _build_json(found: RetentionPlan, removed: list[RemovedRecord] | None) -> dict[str, Any]:
    done = {removal.record.head.job for removal in removed or ()}
    return {
        "applied": removed is not None,
        "jobs": [
            {
                "job": removal.record.head.job,
                "user": removal.record.head.user,
                "ended": removal.record.head.ended,
                "size": removal.record.size,
                "why": removal.why,
                "gone": removal.record.head.job in done,
            }
            for removal in found.going
        ],
        "size": found.size,
        "stay": found.stays,
        "pinned": found.pinned,
        "unended": found.unended,
        "damaged": found.damaged,
        "problems": dict(found.problems),
    }


@click.command("pin")
@job_argument
@click.option("--undo", is_flag=True, help="Remove the protection.")
@json_option("Print what was done as JSON.")
def pin(job: str, undo: bool, as_json: bool) -> None:
    """Protect JOB's history from `tony purge`, however old it is."""
    place, name = job_id(job)
    store = open_location(str(place.path), place, os.environ)
    path = f"jobs/{name}"
    changed = retention.unpin(store, path) if undo else retention.pin(store, path, get_user_name())
    if as_json:
        print_json({"job": name, "pinned": not undo, "changed": changed})
    elif undo:
        say(f"Unpinned {name}" if changed else f"{name} is not pinned")
    else:
        say(f"Pinned {name}" if changed else f"{name} is already pinned")
