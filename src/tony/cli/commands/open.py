"""`tony open JOB`."""

from __future__ import annotations

import asyncio
import os
from urllib.parse import quote

import click

from tony.cli.browser import has_display, reached_by
from tony.cli.options import job_argument, job_id, json_option
from tony.cli.output import print_json, say, say_all
from tony.errors import InfraError, UserError
from tony.history.job_record import record_of
from tony.jobs.facts import submitter_of
from tony.jobs.portal_address import running
from tony.model.layout import Home


@click.command("open")
@job_argument
@click.option("--print", "only_print", is_flag=True, help="Only print the address, also where there is a display.")
@json_option("Print the address as JSON.")
def command(job: str, only_print: bool, as_json: bool) -> None:
    """Open JOB's web page in a browser; without a display, print its address.

    It is the page of your portal, if one runs on this machine (tony portal starts one); else, of a job on a cluster,
    the one that the cluster's own pages lead to.
    """
    home, name = job_id(job)
    portal = running(home)
    address = f"{portal}job/{quote(name, safe='')}" if portal else _of_cluster(home, name)
    if not address:
        raise UserError("no portal of yours runs on this machine that could show it. Start one: tony portal")
    opened = not only_print and not as_json and has_display(os.environ) and _browse(address)
    if as_json:
        print_json({"job": name, "address": address, "portal": portal is not None})
        return
    say(address)
    if not opened and portal:
        say_all(reached_by(portal.partition("://")[2].rstrip("/")))


def _of_cluster(home: Home, job: str) -> str:
    """The address under which a cluster shows it; empty if it does not, or cannot be asked."""
    try:
        return asyncio.run(submitter_of(home, record_of(home, job)).page(job))
    except InfraError:
        return ""


def _browse(address: str) -> bool:
    import webbrowser  # late: it looks for every browser there is

    return webbrowser.open(address)
