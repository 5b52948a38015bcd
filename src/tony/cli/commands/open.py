"""`tony open JOB`."""

from __future__ import annotations

import asyncio
import os
import webbrowser
from urllib.parse import quote

import click

from tony.cli.options import job_argument, job_id, json_option
from tony.cli.terminal.display import format_ssh_hint, has_display
from tony.cli.terminal.output import print_json, say, say_all
from tony.errors import InfraError, UserError
from tony.history.job_record import record_of
from tony.jobs.portal_client.known_portals import find_running
from tony.model.state_directory import Home
from tony.schedulers.registry import load_submitter


@click.command("open")
@job_argument
@click.option("--print", "only_print", is_flag=True, help="Only print the address, even with a display.")
@json_option("Print the address as JSON.")
def command(job: str, only_print: bool, as_json: bool) -> None:
    """Open JOB's web page in a browser; without a display, print its address.

    Opens the page of your portal if one is running on this machine (start one with tony portal); otherwise, for a job
    on a cluster, the tracking URL that the cluster shows.
    """
    home, name = job_id(job)
    portal = find_running(home)
    address = f"{portal}job/{quote(name, safe='')}" if portal else _find_cluster_page(home, name)
    if not address:
        raise UserError("your portal is not running on this machine. Start it: tony portal")
    opened = not only_print and not as_json and has_display(os.environ) and webbrowser.open(address)
    if as_json:
        print_json({"job": name, "address": address, "portal": portal is not None})
        return
    say(address)
    if not opened and portal:
        say_all(format_ssh_hint(portal.partition("://")[2].rstrip("/")))


def _find_cluster_page(home: Home, job: str) -> str:
    """Return the address under which the cluster shows the job; empty if there is none, or it cannot be reached."""
    try:
        return asyncio.run(load_submitter(home, record_of(home, job)).page(job))
    except InfraError:
        return ""
