"""`tony events JOB`."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import aclosing

import click

from tony.cli.options import job_argument, job_id, json_option
from tony.cli.text.event_list import EventTeller
from tony.model.codec import to_plain
from tony.model.layout import Home


@click.command("events")
@job_argument
@click.option("-f", "--follow", is_flag=True, help="Print new events until the job has ended.")
@json_option("Print each event as a JSON object.")
def command(job: str, follow: bool, as_json: bool) -> None:
    """List the events of JOB, one per line."""
    home, name = job_id(job)
    asyncio.run(_print(home, name, follow, as_json))


async def _print(home: Home, job: str, follow: bool, as_json: bool) -> None:
    from tony.jobs.job_events import events

    teller = EventTeller()
    async with aclosing(events(home, job, follow=follow)) as stream:
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
                print(teller.line(entry), flush=follow)
    sys.stdout.flush()
