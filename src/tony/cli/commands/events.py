"""`tony events JOB`."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import aclosing
from typing import TYPE_CHECKING

import click

from tony.cli.open_job import find_job
from tony.cli.options import job_argument, json_option
from tony.cli.terminal.terminal_text import format_clock_time
from tony.control_characters import escape
from tony.history.event_log import LogEntry
from tony.jobs.event_text import INTERNAL_EVENTS, EventWords, name_event
from tony.model.codec import to_plain

if TYPE_CHECKING:
    from tony.jobs.directory.view import DirectoryJobView


@click.command("events")
@job_argument
@click.option("-f", "--follow", is_flag=True, help="Print new events until the job has ended.")
@click.option("--all", "every", is_flag=True, help="List internal events, too.")
@json_option("Print every event as a JSON object.")
def command(job: str, follow: bool, every: bool, as_json: bool) -> None:
    """List the events of JOB, one per line."""
    asyncio.run(_print(find_job(job), follow, every, as_json))


async def _print(view: DirectoryJobView, follow: bool, every: bool, as_json: bool) -> None:
    teller = EventTeller()
    async with aclosing(view.events(follow=follow)) as stream:
        async for entry in stream:
            if as_json:
                plain = {
                    "seq": entry.seq,
                    "at": entry.at,
                    "wall": entry.wall,
                    "attempt": entry.attempt,
                    "event": entry.event.kind,
                    "data": to_plain(entry.event),
                }
                print(json.dumps(plain), flush=follow)
            else:
                line = teller.format_line(entry)
                if every or not isinstance(entry.event, INTERNAL_EVENTS):
                    print(line, flush=follow)
    sys.stdout.flush()


class EventTeller:
    """Formats the events of a job, in order."""

    def __init__(self) -> None:
        self._words = EventWords()

    def format_line(self, entry: LogEntry) -> str:
        """Return an event as text: `12:03:04     +0.412  registered         worker:0 at node1:41233 for session 1`."""
        text = self._words.describe(entry.event)
        return escape(
            f"{format_clock_time(entry.wall)}  {entry.at:+9.3f}  {name_event(entry.event):17}  {text}".rstrip()
        )
