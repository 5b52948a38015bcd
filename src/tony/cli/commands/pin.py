"""`tony pin JOB`."""

from __future__ import annotations

import os

import click

from tony.cli.options import job_argument, job_id, json_option
from tony.cli.terminal.output import print_json, say
from tony.jobs.state_dir import get_user_name
from tony.portal.histories.history_locations import open_location
from tony.portal.histories.retention import pin, unpin


@click.command("pin")
@job_argument
@click.option("--undo", is_flag=True, help="Remove the protection.")
@json_option("Print what was done as JSON.")
def command(job: str, undo: bool, as_json: bool) -> None:
    """Protect JOB's history from `tony purge`, however old it is."""
    home, name = job_id(job)
    store = open_location(str(home.path), home, os.environ)
    path = f"jobs/{name}"
    changed = unpin(store, path) if undo else pin(store, path, get_user_name())
    if as_json:
        print_json({"job": name, "pinned": not undo, "changed": changed})
    elif undo:
        say(f"Unpinned {name}" if changed else f"{name} is not pinned")
    else:
        say(f"Pinned {name}" if changed else f"{name} is already pinned")
