"""`tony open JOB`."""

from __future__ import annotations

import asyncio
import os
import sys
import webbrowser
from collections.abc import Callable
from functools import partial
from threading import Thread
from urllib.parse import quote, urlsplit

import click

from tony.cli.options import job_argument, job_id, json_option
from tony.cli.portal_packages import check_portal_packages
from tony.cli.terminal.display import format_ssh_hint, has_display
from tony.cli.terminal.output import print_json, say, say_all, warn
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

    Opens the page of your portal if one is running on this machine; otherwise, for a job on a cluster, the tracking URL
    that the cluster shows. If there is neither, starts your portal, and serves its pages until Ctrl-C; not if only the
    address is requested.
    """
    home, name = job_id(job)
    show = partial(_show, name, only_print=only_print, as_json=as_json)
    if portal := find_running(home):
        show(_build_page_address(portal, name), is_portal=True)
    elif page := _find_cluster_page(home, name):
        show(page, is_portal=False)
    elif only_print or as_json:
        raise UserError("your portal is not running on this machine. Start it: tony portal")
    else:
        _serve_portal(home, lambda portal: show(_build_page_address(portal, name), is_portal=True))


def _show(job: str, address: str, *, is_portal: bool, only_print: bool, as_json: bool) -> None:
    if as_json:
        print_json({"job": job, "address": address, "portal": is_portal})
    else:
        say(address)
        opened = not only_print and has_display(os.environ) and webbrowser.open(address)
        if not opened and is_portal:
            say_all(format_ssh_hint(urlsplit(address).netloc))
    sys.stdout.flush()


def _serve_portal(home: Home, announce: Callable[[str], None]) -> None:
    """Serve the user's portal until Ctrl-C.

    Args:
        announce: called with its address, in a thread: some browsers are waited for.
    """
    check_portal_packages()
    from tony.portal.access.listen_options import ListenOptions  # late: the portal's packages are optional
    from tony.portal.server import run

    def start(address: str) -> None:
        Thread(target=announce, args=(address,), daemon=True).start()
        warn("serving until Ctrl-C, which does not stop the job")

    asyncio.run(run(home, ListenOptions(), start))


def _build_page_address(portal: str, job: str) -> str:
    return f"{portal}job/{quote(job, safe='')}"


def _find_cluster_page(home: Home, job: str) -> str:
    """Return the address under which the cluster shows the job; empty if there is none, or it cannot be reached."""
    try:
        return asyncio.run(load_submitter(home, record_of(home, job)).page(job))
    except InfraError:
        return ""
